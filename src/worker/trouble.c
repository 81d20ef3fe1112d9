/*
 * trouble.c - finding the operation that makes turns fail.
 */
#include "postgres.h"

#include "worker/trouble.h"

#include "utils/elog.h"

#define STRIKES 4
#define FIRST_WAIT INT64CONST(50000)      /* 50 ms */
#define LONGEST_WAIT INT64CONST(10000000) /* 10 s */
#define LOCK_WAIT INT64CONST(10000)       /* 10 ms, a row that is held for a moment */
#define LOCK_WAIT_MAX INT64CONST(500000)  /* 0.5 s, a table in the hands of DDL */
#define CULPRITS 32

typedef struct Culprit
{
	char  op_id[1024]; /* empty: none */
	int   strikes;
	int64 avoid_until;
} Culprit;

/* All moments here are by the steady clock. */
static Culprit culprits[CULPRITS];
static int     careful = 0; /* turns to come that take one item */
static int64   wait_time = 0;
static int64   lock_wait = 0;
static int64   not_before = 0;

int
trouble_limit(int normal)
{
	return careful > 0 ? 1 : normal;
}

int64
trouble_not_before(void)
{
	return not_before;
}

static bool
avoided(const Culprit *culprit, int64 now)
{
	return culprit->op_id[0] != '\0' && now < culprit->avoid_until;
}

bool
trouble_avoids(const char *op_id, int64 now)
{
	for (int i = 0; i < CULPRITS; i++)
	{
		if (avoided(&culprits[i], now) && strcmp(culprits[i].op_id, op_id) == 0)
			return true;
	}
	return false;
}

char **
trouble_avoided(int64 now, int *count)
{
	char **ids = palloc(sizeof(char *) * CULPRITS);

	*count = 0;
	for (int i = 0; i < CULPRITS; i++)
	{
		if (avoided(&culprits[i], now))
			ids[(*count)++] = culprits[i].op_id;
	}
	return ids;
}

/* Full disks, locks, cancelled statements: not the operation's fault. */
static bool
fault_of_the_world(int sqlstate)
{
	static const int classes[] = {ERRCODE_INSUFFICIENT_RESOURCES,
								  ERRCODE_OPERATOR_INTERVENTION,
								  ERRCODE_IO_ERROR,
								  ERRCODE_TRANSACTION_ROLLBACK,
								  ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
								  ERRCODE_INVALID_TRANSACTION_STATE,
								  ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION};

	for (int i = 0; i < lengthof(classes); i++)
	{
		if (ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TO_CATEGORY(classes[i]))
			return true;
	}
	return false;
}

/* Its entry; a new one takes the place that was avoided the longest ago. */
static Culprit *
culprit_of(const char *op_id)
{
	Culprit *oldest = &culprits[0];

	for (int i = 0; i < CULPRITS; i++)
	{
		if (strcmp(culprits[i].op_id, op_id) == 0)
			return &culprits[i];
		if (culprits[i].avoid_until < oldest->avoid_until)
			oldest = &culprits[i];
	}
	memset(oldest, 0, sizeof(Culprit));
	strlcpy(oldest->op_id, op_id, sizeof(oldest->op_id));
	return oldest;
}

bool
trouble_failed(int sqlstate, const char *suspect, int items, int64 now)
{
	Culprit *culprit;

	/* Somebody holds a row or a table: that passes, sooner or later. */
	if (sqlstate == ERRCODE_LOCK_NOT_AVAILABLE)
	{
		lock_wait = lock_wait == 0 ? LOCK_WAIT : Min(lock_wait * 2, LOCK_WAIT_MAX);
		not_before = now + lock_wait;
		return false;
	}
	careful = Max(careful, items) + 1;
	if (!suspect || fault_of_the_world(sqlstate))
	{
		wait_time = wait_time == 0 ? FIRST_WAIT : Min(wait_time * 2, LONGEST_WAIT);
		not_before = now + wait_time;
		return false;
	}
	culprit = culprit_of(suspect);
	culprit->avoid_until =
		now + Min(FIRST_WAIT << Min(culprit->strikes, 12), 6 * LONGEST_WAIT);
	culprit->strikes++;
	return culprit->strikes >= STRIKES;
}

void
trouble_over(void)
{
	wait_time = 0;
	lock_wait = 0;
	not_before = 0;
	if (careful > 0)
		careful--;
}
