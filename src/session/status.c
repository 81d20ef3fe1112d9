/*
 * status.c - op_status: the receipt of an operation, as it is now.
 */
#include "postgres.h"

#include "base/compat.h"
#include "fmgr.h"
#include "rules/state.h"
#include "session/receipt.h"
#include "store/agenda.h"
#include "store/operation.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(op_status);

Datum
op_status(PG_FUNCTION_ARGS)
{
	char            *op_id = op_id_argument(fcinfo);
	Ledger           ledger = ledger_open(get_func_namespace(fcinfo->flinfo->fn_oid));
	LedgerOperation *operation;
	TimestampTz      due_at = OPL_NEVER;

	ledger.snapshot_of_caller = true;
	operation = operation_read(&ledger, op_id);
	if (!operation)
		no_such_operation(op_id);
	if (!opl_state_ended(operation->op.state))
		due_at = agenda_due_at(&ledger, op_id);
	PG_RETURN_DATUM(receipt_datum(fcinfo, operation, false, due_at, NULL));
}
