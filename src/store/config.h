/*
 * config.h - op_profile, op_provider and op_action: whom we call, and what for.
 */
#ifndef OPL_CONFIG_H
#define OPL_CONFIG_H

#include "postgres.h"

#include "store/ledger.h"

typedef struct LedgerProvider
{
	char *name;
	bool  paused;
	int   concurrency; /* sends at once */
} LedgerProvider;

/* A number that is another one after each change of op_profile, op_provider or
 * op_action that this transaction can see. 0: nothing that is read now may be kept,
 * since the transaction's snapshot may be older than that. */
extern uint64 config_edition(const Ledger *ledger);

/* An action's provider, and a version of all that its spec is merged from. False:
 * there is no such action, or its provider is gone. */
extern bool config_action(const Ledger *ledger, const char *action, char **provider,
						  int64 *version, bool *paused);
/* The spec, merged. */
extern Jsonb *config_spec(const Ledger *ledger, const char *action);
/* Names of the actions of a provider; NULL: of all. */
extern char **config_actions(const Ledger *ledger, const char *provider, int *count);

/* Valid until the next call. */
extern LedgerProvider *config_providers(const Ledger *ledger, int *count);
extern LedgerProvider *config_provider(const Ledger *ledger,
									   const char   *name); /* NULL: it is gone */

/* False: it is paused already, or somebody holds its row. */
extern bool config_pause(const Ledger *ledger, const char *provider, const char *note);

#endif
