#include "daemon/sched/queue.h"

#include <stddef.h>

void queue_push(struct queue *q, struct job *j)
{
    j->next = NULL;
    j->previous = q->tail;
    if (q->tail)
        q->tail->next = j;
    else
        q->head = j;
    q->tail = j;
    q->depth++;
}

void queue_push_front(struct queue *q, struct job *j)
{
    j->previous = NULL;
    j->next = q->head;
    if (q->head)
        q->head->previous = j;
    else
        q->tail = j;
    q->head = j;
    q->depth++;
}

void queue_remove(struct queue *q, struct job *j)
{
    if (j->previous)
        j->previous->next = j->next;
    else
        q->head = j->next;
    if (j->next)
        j->next->previous = j->previous;
    else
        q->tail = j->previous;
    q->depth--;
    j->next = j->previous = NULL;
}

struct job *queue_pop(struct queue *q)
{
    struct job *j = q->head;
    if (j) queue_remove(q, j);
    return j;
}
