/*
 * ledger_config.c - what is configured, and where this ledger may send from.
 */
#include "postgres.h"

#include "store/ledger.h"

#include "store/command.h"
#include "store/config.h"
#include "store/shapes.h"
#include "utils/memutils.h"

/* What a row of configuration says of its version; 0: there is none. */
static int64
version_of(const Shape *shape, const char *name, int column)
{
	Tuples *t = command_open(shape, TUPLES_TO_READ);
	int64   version = tuples_find_text(t, name) ? tuples_bigint(t, column) : 0;

	tuples_close(t);
	return version;
}

static bool
read_action(const char *action, char **provider, int64 *version)
{
	Tuples *t = command_open(&shape_actions, TUPLES_TO_READ);
	bool    found = tuples_find_text(t, action);

	if (found)
	{
		*provider = tuples_text(t, ACTION_PROVIDER);
		*version = tuples_bigint(t, ACTION_VERSION);
	}
	tuples_close(t);
	return found;
}

/* A profile that is gone says nothing. */
static bool
read_provider(const char *provider, int64 *version, bool *paused)
{
	Tuples *t = command_open(&shape_providers, TUPLES_TO_READ);
	bool    found = tuples_find_text(t, provider);

	if (found)
	{
		*version ^= tuples_bigint(t, PROVIDER_VERSION) ^
					version_of(&shape_profiles, tuples_text(t, PROVIDER_PROFILE),
							   PROFILE_VERSION);
		*paused = tuples_bool(t, PROVIDER_PAUSED);
	}
	tuples_close(t);
	return found;
}

uint64
ledger_config_edition(void)
{
	return config_edition(rows_schema());
}

bool
ledger_action(const char *action, char **provider, int64 *version, bool *paused)
{
	Command command = command_begin();
	bool    found = read_action(action, provider, version) &&
				 read_provider(*provider, version, paused);

	command_end(&command);
	return found;
}

/* Room for one more. */
static void *
grow(void *rows, int count, int *room, size_t size)
{
	if (count < *room)
		return rows;
	*room = Max(8, 2 * *room);
	return rows ? repalloc(rows, size * *room) : palloc(size * *room);
}

static LedgerProvider *
read_providers(int *count)
{
	Command         command = command_begin();
	Tuples         *t = command_open(&shape_providers, TUPLES_TO_READ);
	LedgerProvider *read = NULL;
	int             room = 0;

	*count = 0;
	tuples_all(t);
	while (tuples_next(t))
	{
		read = grow(read, *count, &room, sizeof(LedgerProvider));
		read[*count].name = tuples_text(t, PROVIDER_NAME);
		read[(*count)++].paused = tuples_bool(t, PROVIDER_PAUSED);
	}
	tuples_close(t);
	command_end(&command);
	for (int i = 0; i < *count; i++)
		read[i].concurrency = ledger_concurrency(read[i].name);
	return read;
}

/* What was read of the configuration, for as long as that is of one edition. */
static struct
{
	uint64          edition;
	MemoryContext   context;
	LedgerProvider *providers;
	int             count;
} kept;

static void
keep(uint64 edition, const LedgerProvider *read, int n)
{
	if (!kept.context)
		kept.context = AllocSetContextCreate(TopMemoryContext, "op_ledger providers",
											 ALLOCSET_SMALL_SIZES);
	kept.edition = 0;
	MemoryContextReset(kept.context);
	kept.providers = MemoryContextAlloc(kept.context, sizeof(LedgerProvider) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		kept.providers[i] = read[i];
		kept.providers[i].name = MemoryContextStrdup(kept.context, read[i].name);
	}
	kept.count = n;
	kept.edition = edition;
}

/* Valid until the next call. */
LedgerProvider *
ledger_providers(int *count)
{
	uint64          edition = config_edition(rows_schema());
	LedgerProvider *read;

	if (edition == 0 || edition != kept.edition)
	{
		read = read_providers(count);
		if (edition == 0)
			return read;
		keep(edition, read, *count);
	}
	*count = kept.count;
	return kept.providers;
}

/* -------------------------------------------------------------------- homes */

static void
read_home(Tuples *t, HomeRow *out)
{
	bool null;

	out->system_identifier = (uint64) tuples_bigint(t, C_SYSTEM_IDENTIFIER);
	out->database = DatumGetObjectId(tuples_datum(t, C_DATABASE, &null));
	out->extension = DatumGetObjectId(tuples_datum(t, C_EXTENSION, &null));
	out->timeline = (uint32) tuples_int(t, C_TIMELINE);
	out->control_inode = tuples_bigint(t, C_CONTROL_INODE);
	out->retired = tuples_bool(t, C_RETIRED);
}

static HomeRow *
read_homes(int *count)
{
	Command  command = command_begin();
	Tuples  *t = command_open(&shape_homes, TUPLES_TO_READ);
	HomeRow *rows = NULL;
	int      room = 0;

	*count = 0;
	tuples_all(t);
	while (tuples_next(t))
	{
		rows = grow(rows, *count, &room, sizeof(HomeRow));
		read_home(t, &rows[(*count)++]);
	}
	tuples_close(t);
	command_end(&command);
	return rows;
}

HomeFault
ledger_home_fault(Oid extension)
{
	int      n;
	HomeRow *rows = read_homes(&n);
	HomeRow  here = home_here(extension);

	return home_fault(rows, n, &here);
}
