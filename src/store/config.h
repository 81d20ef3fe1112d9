/*
 * config.h - has the configuration changed?
 */
#ifndef OPL_CONFIG_H
#define OPL_CONFIG_H

#include "postgres.h"

/* A number that is another one after each change of op_profile, op_provider or
 * op_action that this transaction can see. 0: nothing that is read now may be kept,
 * since the transaction's snapshot may be older than that. */
extern uint64 config_edition(Oid schema);

#endif
