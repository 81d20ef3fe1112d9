/*
 * shapes.c - the tables, as src/sql/10_tables.sql makes them.
 */
#include "postgres.h"

#include "store/shapes.h"

#include "catalog/pg_type.h"

static const ShapeColumn operation_columns[] = {{"op_id", TEXTOID},
												{"action", TEXTOID},
												{"provider", TEXTOID},
												{"state", TEXTOID},
												{"tainted", BOOLOID},
												{"sealed", TEXTOID},
												{"contradiction", BOOLOID},
												{"adopted", BOOLOID},
												{"generation", INT4OID},
												{"attempts", INT4OID},
												{"tries", INT4OID},
												{"trying_since", TIMESTAMPTZOID},
												{"first_sent_at", TIMESTAMPTZOID},
												{"last_sent_at", TIMESTAMPTZOID},
												{"lease_until", TIMESTAMPTZOID},
												{"external_id", TEXTOID},
												{"failed_ids", TEXTARRAYOID},
												{"reason", TEXTOID},
												{"args_hash", BYTEAOID},
												{"run_id", TEXTOID},
												{"lane", TEXTOID},
												{"undoes", TEXTOID},
												{"submitted_by", TEXTOID},
												{"created_at", TIMESTAMPTZOID},
												{"settled_at", TIMESTAMPTZOID}};

static const ShapeColumn request_columns[] = {{"op_id", TEXTOID},
											  {"generation", INT4OID},
											  {"args", JSONBOID},
											  {"key", TEXTOID},
											  {"method", TEXTOID},
											  {"url", TEXTOID},
											  {"headers", TEXTARRAYOID},
											  {"body", BYTEAOID},
											  {"step", TEXTOID},
											  {"tool_call_id", TEXTOID},
											  {"dedupe_key", TEXTOID},
											  {"traceparent", TEXTOID},
											  {"not_before", TIMESTAMPTZOID},
											  {"not_after", TIMESTAMPTZOID},
											  {"cost", NUMERICOID}};

static const ShapeColumn due_columns[] = {{"op_id", TEXTOID},
										  {"provider", TEXTOID},
										  {"step", TEXTOID},
										  {"due_at", TIMESTAMPTZOID},
										  {"epoch", INT8OID}};

static const ShapeColumn attempt_columns[] = {{"op_id", TEXTOID},
											  {"n", INT4OID},
											  {"kind", TEXTOID},
											  {"generation", INT4OID},
											  {"started_at", TIMESTAMPTZOID},
											  {"finished_at", TIMESTAMPTZOID},
											  {"verdict", TEXTOID},
											  {"reason", TEXTOID},
											  {"external_id", TEXTOID},
											  {"http_status", INT4OID},
											  {"curl_code", INT4OID},
											  {"bytes_sent", INT8OID},
											  {"peer", TEXTOID},
											  {"connect_us", INT4OID},
											  {"first_byte_us", INT4OID},
											  {"total_us", INT4OID},
											  {"retry_after", INT4OID},
											  {"request_id", TEXTOID},
											  {"response_headers", BYTEAOID},
											  {"response_body", BYTEAOID},
											  {"error", TEXTOID},
											  {"pages", INT4OID}};

static const ShapeColumn control_columns[] = {
	{"system_identifier", INT8OID}, {"database_oid", OIDOID},
	{"extension_oid", OIDOID},      {"timeline", INT4OID},
	{"control_inode", INT8OID},     {"adopted_at", TIMESTAMPTZOID},
	{"adopted_by", TEXTOID},        {"retired", BOOLOID}};

static const ShapeColumn action_columns[] = {{"name", TEXTOID},
											 {"provider", TEXTOID},
											 {"template", TEXTOID},
											 {"spec", JSONBOID},
											 {"version", INT8OID}};
static const ShapeColumn provider_columns[] = {{"name", TEXTOID},
											   {"profile", TEXTOID},
											   {"base_url", TEXTOID},
											   {"secret", TEXTOID},
											   {"spec", JSONBOID},
											   {"paused", BOOLOID},
											   {"paused_at", TIMESTAMPTZOID},
											   {"paused_note", TEXTOID},
											   {"version", INT8OID}};
static const ShapeColumn profile_columns[] = {
	{"name", TEXTOID}, {"spec", JSONBOID}, {"version", INT8OID}};

#define BIT(column) (UINT64CONST(1) << (column))
#define SHAPE(table, index, columns, updated)                     \
	{                                                             \
		table, index, lengthof(columns), columns, (updated), NULL \
	}

#define OPERATION_UPDATED                                                           \
	(BIT(O_STATE) | BIT(O_TAINTED) | BIT(O_SEALED) | BIT(O_CONTRADICTION) |         \
	 BIT(O_ATTEMPTS) | BIT(O_TRIES) | BIT(O_TRYING_SINCE) | BIT(O_FIRST_SENT_AT) |  \
	 BIT(O_LAST_SENT_AT) | BIT(O_EXTERNAL_ID) | BIT(O_FAILED_IDS) | BIT(O_REASON) | \
	 BIT(O_SETTLED_AT))

/* What its guard asks, update_operation() has asked. */
const Shape shape_operations = {
	.table = "op_operation",
	.ncolumns = lengthof(operation_columns),
	.columns = operation_columns,
	.updated = OPERATION_UPDATED,
	.guard = "op_operation_guard",
};
const Shape shape_requests = SHAPE("op_request", NULL, request_columns, 0);
const Shape shape_agenda =
	SHAPE("op_due", NULL, due_columns, BIT(D_STEP) | BIT(D_DUE_AT) | BIT(D_EPOCH));
const Shape shape_agenda_by_time = SHAPE("op_due", "op_due_next", due_columns, 0);
const Shape shape_attempts = SHAPE("op_attempt", NULL, attempt_columns, 0);
const Shape shape_homes = SHAPE("op_control", NULL, control_columns, 0);
const Shape shape_actions = SHAPE("op_action", NULL, action_columns, 0);
const Shape shape_providers = SHAPE("op_provider", NULL, provider_columns, 0);
const Shape shape_profiles = SHAPE("op_profile", NULL, profile_columns, 0);
