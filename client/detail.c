/* detail: names and texts of sub-codes. proto/README.md explains them in more words. */
#include "client/client.h"

static const struct detail_words {
    const char *name, *text;
} words[] = {
    [EA_DETAIL_NONE] = {"none", "nothing more is known"},
    [EA_DETAIL_BAD_MAGIC] = {"bad_magic", "not a frame"},
    [EA_DETAIL_BAD_VERSION] = {"bad_version",
                               "the daemon does not speak this frame or protocol version"},
    [EA_DETAIL_MESSAGE_TOO_LARGE] = {"message_too_large", "more than message_bytes_max"},
    [EA_DETAIL_BODY_TOO_LARGE] = {"body_too_large", "more than body_bytes_max"},
    [EA_DETAIL_REPLY_TOO_LARGE] = {"reply_too_large",
                                   "the reply would be more than reply_bytes_max"},
    [EA_DETAIL_BAD_MESSAGE] = {"bad_message", "the bytes do not decode"},
    [EA_DETAIL_BAD_SHAPE] = {"bad_shape",
                             "a tensor's dtype, rows or columns are wrong, or it should be absent"},
    [EA_DETAIL_BODY_MISMATCH] = {"body_mismatch", "the tensors do not fill the body"},
    [EA_DETAIL_UNKNOWN_KIND] = {"unknown_kind", "a kind of request that the daemon does not know"},
    [EA_DETAIL_HELLO_REQUIRED] = {"hello_required",
                                  "the first frame was not Hello, or a second Hello"},
    [EA_DETAIL_BAD_SPACE] = {"bad_space", "a name of a space that cannot be"},
    [EA_DETAIL_BAD_NAME] = {"bad_name", "a name that cannot be"},
    [EA_DETAIL_BAD_TOKEN] = {"bad_token", "the token is wrong or missing"},
    [EA_DETAIL_UNKNOWN_COLLECTION] = {"unknown_collection", "there is no such collection"},
    [EA_DETAIL_COLLECTION_EXISTS] = {"collection_exists", "there is a collection of that name"},
    [EA_DETAIL_BAD_DIMENSION] = {"bad_dimension",
                                 "a dimension that is out of range, or not the collection's"},
    [EA_DETAIL_BAD_METRIC] = {"bad_metric", "no such metric"},
    [EA_DETAIL_BAD_K] = {"bad_k", "k is out of range"},
    [EA_DETAIL_NOT_FINITE] = {"not_finite", "NaN or infinity in a row"},
    [EA_DETAIL_NORM_OVERFLOW] = {"norm_overflow", "a row's squared norm overflows"},
    [EA_DETAIL_DUPLICATE_ID] = {"duplicate_id", "an id is given twice in one upsert"},
    [EA_DETAIL_UNKNOWN_ID] = {"unknown_id", "there is no such id"},
    [EA_DETAIL_BAD_OFFSETS] = {"bad_offsets", "offsets do not rise from 0 to the end"},
    [EA_DETAIL_BAD_FILTER] = {"bad_filter", "a filter that cannot be"},
    [EA_DETAIL_MEMORY] = {"memory", "the daemon's bound on memory is reached"},
    [EA_DETAIL_QUEUE_FULL] = {"queue_full", "the queue is full"},
    [EA_DETAIL_CONNECTIONS] = {"connections", "the bound on connections is reached"},
    [EA_DETAIL_SHUTTING_DOWN] = {"shutting_down", "the daemon is shutting down"},
    [EA_DETAIL_REQUEST_ID_IN_USE] = {"request_id_in_use", "a request of that id is under way"},
    [EA_DETAIL_CANCELLED_BY_CLIENT] = {"cancelled_by_client", "cancelled by the client"},
    [EA_DETAIL_DEADLINE] = {"deadline", "the deadline passed"},
    [EA_DETAIL_TOO_MANY_ROWS] = {"too_many_rows",
                                 "more rows than a collection can hold, or a clustering may have"},
    [EA_DETAIL_BAD_THRESHOLD] = {"bad_threshold",
                                 "a threshold that is not a number, or out of range"},
    [EA_DETAIL_BAD_FLAGS] = {"bad_flags", "a request with flags"},
    [EA_DETAIL_SYSTEM] = {"system", "a system call failed"},
    [EA_DETAIL_TOO_MANY_COLLECTIONS] =
        {"too_many_collections",
         "the space has as many collections and graphs as limits.collections allows"},
    [EA_DETAIL_QUOTA] = {"quota", "the space's quota of memory or connections is reached"},
    [EA_DETAIL_UNKNOWN_GRAPH] = {"unknown_graph", "there is no such graph"},
    [EA_DETAIL_GRAPH_EXISTS] = {"graph_exists", "there is a graph of that name"},
    [EA_DETAIL_BAD_WEIGHT] = {"bad_weight",
                              "an edge's weight is not finite, or a row's is below 0"},
    [EA_DETAIL_BAD_NODE] = {"bad_node",
                            "an id, kind or factor that no node can have, or an id is given twice"},
    [EA_DETAIL_UNKNOWN_NODE] = {"unknown_node",
                                "a seed, or a node of the set, is not in the graph"},
    [EA_DETAIL_TOO_MANY_NODES] = {"too_many_nodes",
                                  "too many nodes in a graph, or edges at a node"},
    [EA_DETAIL_BAD_MODE] = {"bad_mode",
                            "there is no such mode or fan, or a flag belongs to the other mode"},
    [EA_DETAIL_BAD_HOPS] = {"bad_hops", "hops are out of range"},
    [EA_DETAIL_BAD_DECAY] = {"bad_decay", "a decay law or parameter that cannot be"},
    [EA_DETAIL_BAD_SEED] = {"bad_seed",
                            "a seed's activation is bad, or a seed is outside the node set"},
    [EA_DETAIL_UNKNOWN_EDGE] = {"unknown_edge", "there is no edge between these nodes"},
    [EA_DETAIL_SEVERAL_EDGES] = {"several_edges", "there are several edges between these nodes"},
    [EA_DETAIL_VERSION_CHANGED] = {"version_changed",
                                   "there is another version than the write expects"},
    [EA_DETAIL_UNKNOWN_VERSION] = {"unknown_version", "the write expects a version that never was"},
    [EA_DETAIL_TOKEN_REUSED] = {"token_reused", "the first write with this token was another one"},
    [EA_DETAIL_TOKEN_BUSY] = {"token_busy", "the first write with this token is under way"},
    [EA_DETAIL_NO_INVERSE] = {"no_inverse", "a row has no exact inverse"},
    [EA_DETAIL_BAD_BETA] = {"bad_beta", "beta is not a number within its bounds"},
    [EA_DETAIL_BAD_ROUNDS] = {"bad_rounds", "the number of rounds is out of its bounds"},
    [EA_DETAIL_NO_ROWS] = {"no_rows", "the collection has no rows, or too few"},
    [EA_DETAIL_UNKNOWN_ATTRACTOR] = {"unknown_attractor", "there is no such attractor"},
    [EA_DETAIL_ATTRACTOR_EXISTS] = {"attractor_exists", "there is an attractor of that name"},
    [EA_DETAIL_BAD_WEIGHTS] = {"bad_weights",
                               "weights that are not square, not finite or out of range"},
    [EA_DETAIL_BAD_MASK] = {"bad_mask", "a mask of another shape than the cues"},
    [EA_DETAIL_TOO_FEW_KNOWN] = {"too_few_known", "less than a third of a cue is known"},
    [EA_DETAIL_BAD_SPARSITY] = {"bad_sparsity",
                                "a sparsity or rate that is not above 0 and at most 1"},
    [EA_DETAIL_BAD_SEEDING] = {"bad_seeding", "what makes rows seeds is out of range"},
    [EA_DETAIL_BAD_BUDGET] = {"bad_budget", "a time of 0"},
    [EA_DETAIL_BAD_ID] = {"bad_id", "the id 2^64 - 1, which no row has"},
    [EA_DETAIL_BAD_RULE] = {"bad_rule", "there is no such rule of clustering"},
    [EA_DETAIL_BAD_SIZE] = {"bad_size", "a size or a number of clusters that is 0"},
    [EA_DETAIL_BAD_TIMES] = {"bad_times", "times that are not finite, or that have no use"},
    [EA_DETAIL_BAD_SETTING] = {"bad_setting", "there is no such setting, or not with this value"},
    [EA_DETAIL_NOT_LIVE] = {"not_live", "a setting that needs a restart"},
    [EA_DETAIL_NOT_OPERATOR] = {"not_operator",
                                "only root and the user that runs the daemon may do it"},
    [EA_DETAIL_UNKNOWN_SPACE] = {"unknown_space", "there is no such space"},
    [EA_DETAIL_DAMAGED] = {"damaged", "what is on the disk is not what was written there"},
    [EA_DETAIL_LOADING] = {"loading", "what is named is still being loaded from the disk"},
    [EA_DETAIL_BEING_WRITTEN] = {"being_written",
                                 "what is to take another's place is still being written"},
    [EA_DETAIL_STATE_CHANGED] = {"state_changed",
                                 "another instance or generation is there than is expected"},
    [EA_DETAIL_RESTARTING] = {"restarting", "another daemon takes this one's place"},
    [EA_DETAIL_CURSOR_ENDED] = {"cursor_ended", "what a cursor kept is not kept any more"},
    [EA_DETAIL_JOURNAL] = {"journal", "the journal cannot be written: its disk is full, or failed"},
};

static const struct detail_words *find(uint32_t detail)
{
    static const struct detail_words none = {"?", "?"};
    bool known = detail < sizeof words / sizeof *words && words[detail].name;
    return known ? &words[detail] : &none; /* some numbers are not given away */
}

const char *ea_detail_name(uint32_t detail)
{
    return find(detail)->name;
}

const char *ea_detail_text(uint32_t detail)
{
    return find(detail)->text;
}
