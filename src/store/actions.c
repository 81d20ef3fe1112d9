/*
 * actions.c - parsed specs, one per action and process.
 *
 * The version is a digest of all that a spec is merged from, so an entry is
 * right exactly as long as its version is the one the present snapshot shows.
 * Where nothing of the configuration has changed, it need not be looked at.
 */
#include "postgres.h"

#include "store/actions.h"

#include "base/errors.h"
#include "spec/fields.h"
#include "store/config.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define NAME_SIZE 128

typedef struct Entry
{
	char    name[NAME_SIZE];
	uint64  edition; /* of the configuration in which it was compared last */
	Action *action;
} Entry;

static HTAB *entries = NULL;

static HTAB *
table(void)
{
	HASHCTL how = {.keysize = NAME_SIZE, .entrysize = sizeof(Entry)};

	if (!entries)
		entries = hash_create("op_ledger actions", 32, &how, HASH_ELEM | HASH_STRINGS);
	return entries;
}

/* Whoever asked for it in this transaction may still work with it: a trigger that its
 * writing fires may change the action and ask again. */
static void
forget(Action *action)
{
	action->current = false;
	if (action->holders == 0)
		MemoryContextSetParent(action->context, TopTransactionContext);
}

void
action_hold(Action *action)
{
	if (action->holders++ == 0)
		MemoryContextSetParent(action->context, TopMemoryContext);
}

void
action_release(Action *action)
{
	action->holders--;
	if (action->holders == 0 && !action->current)
		MemoryContextDelete(action->context);
}

/* Parsed in a context that only survives when nothing was wrong. */
static Action *
load(const Ledger *ledger, const char *name, const char *provider, int64 version)
{
	Jsonb        *merged = config_spec(ledger, name);
	MemoryContext context = AllocSetContextCreate(
		CurrentMemoryContext, "op_ledger action", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Action       *action = palloc0(sizeof(Action));

	action->name = pstrdup(name);
	action->provider = pstrdup(provider);
	action->version = version;
	action->spec = profile_parse(name, merged);
	action->context = context;
	action->current = true;
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, TopMemoryContext);
	return action;
}

/* Compared with the tables; the configuration is of this edition. */
static Action *
find_anew(const Ledger *ledger, const char *name, uint64 edition)
{
	char   *provider;
	int64   version;
	Entry  *entry;
	bool    found;
	bool    paused;
	Action *fresh;

	if (!config_action(ledger, name, &provider, &version, &paused))
		return NULL;
	entry = hash_search(table(), name, HASH_FIND, &found);
	if (!found || entry->action->version != version)
	{
		fresh = load(ledger, name, provider, version);
		entry = hash_search(table(), name, HASH_ENTER, &found);
		if (found)
			forget(entry->action);
		entry->action = fresh;
	}
	entry->edition = edition;
	entry->action->paused = paused;
	return entry->action;
}

Action *
action_find(const Ledger *ledger, const char *name)
{
	uint64 edition = config_edition(ledger);
	Entry *entry;

	if (strlen(name) >= NAME_SIZE)
		return NULL;
	entry = hash_search(table(), name, HASH_FIND, NULL);
	if (entry && edition != 0 && entry->edition == edition)
		return entry->action;
	return find_anew(ledger, name, edition);
}

Action *
action_get(const Ledger *ledger, const char *name)
{
	Action     *action = action_find(ledger, name);
	char      **names;
	int         count;
	const char *near;

	if (action)
		return action;
	names = config_actions(ledger, NULL, &count);
	near = nearest_name(name, (const char *const *) names, count);
	ereport(
		ERROR,
		(errcode(OPL_ERR_NO_ACTION), errmsg("action \"%s\" does not exist", name),
		 near
			 ? errhint("Perhaps you meant \"%s\".", near)
			 : errhint(
				   "op_provider_add() adds the actions of a profile, op_action_add() one "
				   "of your own.")));
}
