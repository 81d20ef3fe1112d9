/*
 * status.c - op_status: the receipt of an operation, as it is now.
 */
#include "postgres.h"

#include "base/compat.h"
#include "fmgr.h"
#include "rules/state.h"
#include "session/receipt.h"
#include "store/ledger.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(op_status);

Datum
op_status(PG_FUNCTION_ARGS)
{
	char            *op_id = op_id_argument(fcinfo);
	LedgerOperation *operation;
	TimestampTz      due_at = OPL_NEVER;

	ledger_begin(get_func_namespace(fcinfo->flinfo->fn_oid));
	operation = ledger_read(op_id, true);
	if (!operation)
		no_such_operation(op_id);
	if (!opl_state_ended(operation->op.state))
		due_at = ledger_due_at(op_id, true);
	ledger_end();
	PG_RETURN_DATUM(receipt_datum(fcinfo, operation, false, due_at, NULL));
}
