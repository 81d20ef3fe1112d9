/*
 * shapes.c - the tables, as src/sql/10_tables.sql makes them.
 */
#include "postgres.h"

#include "shapes.h"

static const char *const operation_columns[] = {
	"op_id",       "action",        "provider",      "state",        "tainted",
	"sealed",      "contradiction", "adopted",       "generation",   "attempts",
	"tries",       "trying_since",  "first_sent_at", "last_sent_at", "lease_until",
	"external_id", "failed_ids",    "reason",        "args_hash",    "run_id",
	"lane",        "undoes",        "submitted_by",  "created_at",   "settled_at"};

static const char *const request_columns[] = {
	"op_id",      "generation",  "args",       "key",       "method",
	"url",        "headers",     "body",       "step",      "tool_call_id",
	"dedupe_key", "traceparent", "not_before", "not_after", "cost"};

static const char *const due_columns[] = {"op_id", "provider", "step", "due_at", "epoch"};

static const char *const attempt_columns[] = {
	"op_id",       "n",           "kind",       "generation",       "started_at",
	"finished_at", "verdict",     "reason",     "external_id",      "http_status",
	"curl_code",   "bytes_sent",  "peer",       "connect_us",       "first_byte_us",
	"total_us",    "retry_after", "request_id", "response_headers", "response_body",
	"error",       "pages"};

static const char *const control_columns[] = {
	"system_identifier", "database_oid", "extension_oid", "timeline",
	"control_inode",     "adopted_at",   "adopted_by",    "retired"};

static const char *const action_columns[] = {"name", "provider", "template", "spec",
											 "version"};
static const char *const provider_columns[] = {"name",      "profile",     "base_url",
											   "secret",    "spec",        "paused",
											   "paused_at", "paused_note", "version"};
static const char *const profile_columns[] = {"name", "spec", "version"};

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
