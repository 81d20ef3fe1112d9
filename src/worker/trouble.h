/*
 * trouble.h - one poisoned operation must not stop the others.
 *
 * After a turn that failed, turns take one item each, so that the culprit shows
 * itself. It then is left alone for a while, longer each time; when it failed
 * often enough for a reason that lies in its data, a person must look.
 */
#ifndef OPL_TROUBLE_H
#define OPL_TROUBLE_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* How many items the next turn may take. */
extern int trouble_limit(int normal);

/* No turn before then; 0: at once. */
extern int64 trouble_not_before(void);

/* Is this operation left alone now? And all of them. */
extern bool   trouble_avoids(const char *op_id, int64 now);
extern char **trouble_avoided(int64 now, int *count);

/* A turn failed. `suspect`: the one operation it worked on, NULL if there were
 * none or several. True: that one has failed too often. */
extern bool trouble_failed(int sqlstate, const char *suspect, int items, int64 now);

/* A turn was committed. */
extern void trouble_over(void);

#endif
