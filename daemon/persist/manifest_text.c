#include "daemon/persist/manifest_text.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

size_t manifest_sum_line(const char *name, const struct manifest_key *key, char *text, size_t bytes)
{
    uint8_t sum[EVP_MAX_MD_SIZE] = {0};
    unsigned count = 0;
    if (key)
        HMAC(EVP_sha256(), key->bytes, (int)key->count, (const uint8_t *)text, bytes, sum, &count);
    else
        EVP_Digest(text, bytes, sum, &count, EVP_sha256(), NULL);
    char *at = text + bytes;
    at += snprintf(at, MANIFEST_END_BYTES, ",\n\t\"%s\":\t\"", name);
    for (int i = 0; i < SHA256_BYTES; i++)
        at += snprintf(at, 3, "%02x", sum[i]);
    *at++ = '"';
    return (size_t)(at - text) - bytes;
}
