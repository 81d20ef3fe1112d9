/*
 * shapes.h - the tables, as src/sql/10_tables.sql makes them: columns by number.
 *
 * Each opening of a table compares their names and types; a version appends columns, and
 * drops none.
 */
#ifndef OPL_SHAPES_H
#define OPL_SHAPES_H

#include "store/tuples.h"

/* op_operation */
enum
{
	O_OP_ID = 1,
	O_ACTION,
	O_PROVIDER,
	O_STATE,
	O_TAINTED,
	O_SEALED,
	O_CONTRADICTION,
	O_ADOPTED,
	O_GENERATION,
	O_ATTEMPTS,
	O_TRIES,
	O_TRYING_SINCE,
	O_FIRST_SENT_AT,
	O_LAST_SENT_AT,
	O_LEASE_UNTIL,
	O_EXTERNAL_ID,
	O_FAILED_IDS,
	O_REASON,
	O_ARGS_HASH,
	O_RUN_ID,
	O_LANE,
	O_UNDOES,
	O_SUBMITTED_BY,
	O_CREATED_AT,
	O_SETTLED_AT
};

/* op_request */
enum
{
	R_OP_ID = 1,
	R_GENERATION,
	R_ARGS,
	R_KEY,
	R_METHOD,
	R_URL,
	R_HEADERS,
	R_BODY,
	R_STEP,
	R_TOOL_CALL_ID,
	R_DEDUPE_KEY,
	R_TRACEPARENT,
	R_NOT_BEFORE,
	R_NOT_AFTER,
	R_COST
};

/* op_due */
enum
{
	D_OP_ID = 1,
	D_PROVIDER,
	D_STEP,
	D_DUE_AT,
	D_EPOCH
};

/* op_attempt */
enum
{
	A_OP_ID = 1,
	A_N,
	A_KIND,
	A_GENERATION,
	A_STARTED_AT,
	A_FINISHED_AT,
	A_VERDICT,
	A_REASON,
	A_EXTERNAL_ID,
	A_HTTP_STATUS,
	A_CURL_CODE,
	A_BYTES_SENT,
	A_PEER,
	A_CONNECT_US,
	A_FIRST_BYTE_US,
	A_TOTAL_US,
	A_RETRY_AFTER,
	A_REQUEST_ID,
	A_RESPONSE_HEADERS,
	A_RESPONSE_BODY,
	A_ERROR,
	A_PAGES
};

/* op_control */
enum
{
	C_SYSTEM_IDENTIFIER = 1,
	C_DATABASE,
	C_EXTENSION,
	C_TIMELINE,
	C_CONTROL_INODE,
	C_ADOPTED_AT,
	C_ADOPTED_BY,
	C_RETIRED
};

/* op_action, op_provider and op_profile: those that are read */
enum
{
	ACTION_PROVIDER = 2,
	ACTION_VERSION = 5,
	PROVIDER_NAME = 1,
	PROVIDER_PROFILE = 2,
	PROVIDER_PAUSED = 6,
	PROVIDER_VERSION = 9,
	PROFILE_VERSION = 3
};

extern const Shape shape_operations;
extern const Shape shape_requests;
extern const Shape shape_agenda;
extern const Shape shape_agenda_by_time;
extern const Shape shape_attempts;
extern const Shape shape_homes;
extern const Shape shape_actions;
extern const Shape shape_providers;
extern const Shape shape_profiles;

#endif
