/*
 * judge.c - what an answer proves and what follows from it, for people who write
 * profiles.
 *
 * _op_classify() and _op_decide() call the very functions that the worker calls;
 * all that is done here is to read their arguments from jsonb and to return a row.
 * Nothing is read from the ledger, and nothing is written.
 */
#include "postgres.h"

#include "base/compat.h"
#include "common/hashfn.h"
#include "base/errors.h"
#include "fmgr.h"
#include "funcapi.h"
#include "rules/decide.h"
#include "session/judge.h"
#include "spec/classify.h"
#include "spec/fields.h"
#include "spec/spec.h"
#include "base/tree.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(_op_classify);
PG_FUNCTION_INFO_V1(_op_decide);

/* ------------------------------------------------------------ rows out */

static Datum
make_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

static Datum
text_or_null(const char *text, bool *isnull)
{
	*isnull = text == NULL;
	return text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

static Datum
moment_or_null(OplMoment moment, bool *isnull)
{
	*isnull = moment == OPL_NEVER;
	return TimestampTzGetDatum(moment);
}

/* ---------------------------------------------------------- names of enums */

static const char *const states[] = {
#define X(id, name, effect, next) name,
	OPL_STATES(X) NULL
#undef X
};

static const char *const seals[] = {
#define X(id, name) name,
	OPL_SEALS(X) NULL
#undef X
};

static const char *const verdicts[] = {
#define X(id, name) name,
	OPL_VERDICTS(X) NULL
#undef X
};

static const char *const stores[] = {
#define X(id, name) name,
	OPL_STORES(X) NULL
#undef X
};

static const char *const kinds[] = {"send", "lookup", "door", "late", NULL};
static const char *const objects[] = {"none", "same", "other", NULL};
static const char *const phases[] = {"none", "resolve", "connect", "tls",
									 "sent", "head",    "done",    NULL};

/* ---------------------------------------------------------------- decide */

#define OPERATION(member) offsetof(OplOperation, member)
#define PROMISE(member) offsetof(OplPromises, member)
#define FINDING(member) offsetof(OplFinding, member)

/* An operation, and the clock by which it is decided about. */
typedef struct Asked
{
	OplOperation op;
	OplClock     clock;
} Asked;

#define CLOCK(member) offsetof(Asked, clock.member)

/* A word for a place; alike words are the same one. */
static void
read_place(const Place *place, const JsonbValue *value)
{
	char *word = field_text(place, value);

	*(OplPlace *) field_target(place) =
		1 + (hash_bytes((const unsigned char *) word, strlen(word)) & PG_INT32_MAX);
}

/* clang-format off */
static const Field operation_fields[] = {
	{"state",           read_choice,   FIELD_REQUIRED, OPERATION(state),         0, 0, states},
	{"sealed",          read_choice,   0,              OPERATION(sealed),        0, 0, seals},
	{"tainted",         read_boolean,  0,              OPERATION(tainted),       0, 0, NULL},
	{"contradiction",   read_boolean,  0,              OPERATION(contradiction), 0, 0, NULL},
	{"adopted",         read_boolean,  0,              OPERATION(adopted),       0, 0, NULL},
	{"generation",      read_integer,  0,              OPERATION(generation),    0, 0, NULL},
	{"attempts",        read_integer,  0,              OPERATION(attempts),      0, 0, NULL},
	{"tries",           read_integer,  0,              OPERATION(tries),         0, 0, NULL},
	{"trying_since",    read_moment,   0,              OPERATION(trying_since),  0, 0, NULL},
	{"first_sent_at",   read_moment,   0,              OPERATION(first_sent_at), 0, 0, NULL},
	{"last_sent_at",    read_moment,   0,              OPERATION(last_sent_at),  0, 0, NULL},
	{"not_after",       read_moment,   0,              OPERATION(not_after),     0, 0, NULL},
	{"external_id",     read_text,     0,              FIELD_NOWHERE,            0, 0, NULL},
	{"steady_since",    read_moment,   0,              CLOCK(steady_since),      0, 0, NULL},
	{"set_back_from",   read_moment,   0,              CLOCK(set_back_from),     0, 0, NULL},
	{"set_back_by",     read_duration, 0,              CLOCK(set_back_by),       0, 0, NULL},
	{"place",           read_place,    0,              OPERATION(place),         0, 0, NULL},
	{NULL, NULL, 0, 0, 0, 0, NULL}};

const Field judge_promises[] = {
	{"ttl",             read_duration, 0,              PROMISE(ttl),             0, 0, NULL},
	{"stores",          read_choice,   0,              PROMISE(stores),          0, 0, stores},
	{"guards",          read_boolean,  0,              PROMISE(guards),          0, 0, NULL},
	{"margin",          read_duration, 0,              PROMISE(margin),          0, 0, NULL},
	{"timeout",         read_duration, 0,              PROMISE(timeout),         0, 0, NULL},
	{"flight",          read_duration, 0,              PROMISE(flight),          0, 0, NULL},
	{"lag",             read_duration, 0,              PROMISE(lag),             0, 0, NULL},
	{"recipe",          read_boolean,  0,              PROMISE(recipe),          0, 0, NULL},
	{"attempts",        read_integer,  0,              PROMISE(attempts),        0, 0, NULL},
	{"patience",        read_duration, 0,              PROMISE(patience),        0, 0, NULL},
	{"give_up",         read_duration, 0,              PROMISE(give_up),         0, 0, NULL},
	{"initial",         read_duration, 0,              PROMISE(initial),         0, 0, NULL},
	{"base",            read_number,   0,              PROMISE(base),            0, 0, NULL},
	{"max",             read_duration, 0,              PROMISE(max),             0, 0, NULL},
	{"jitter",          read_number,   0,              PROMISE(jitter),          0, 1, NULL},
	{"place",           read_place,    0,              PROMISE(place),           0, 0, NULL},
	{NULL, NULL, 0, 0, 0, 0, NULL}};

static const Field finding_fields[] = {
	{"verdict",         read_choice,   FIELD_REQUIRED, FINDING(verdict),         0, 0, verdicts},
	{"kind",            read_choice,   0,              FINDING(kind),            0, 0, kinds},
	{"keyed",           read_boolean,  0,              FINDING(keyed),           0, 0, NULL},
	{"started_at",      read_moment,   0,              FINDING(started_at),      0, 0, NULL},
	{"retry_at",        read_moment,   0,              FINDING(retry_at),        0, 0, NULL},
	{"object",          read_choice,   0,              FINDING(object),          0, 0, objects},
	{"object_failed",   read_boolean,  0,              FINDING(object_failed),   0, 0, NULL},
	{"same_generation", read_boolean,  0,              FINDING(same_generation), 0, 0, NULL},
	{"unmarked",        read_boolean,  0,              FINDING(unmarked),        0, 0, NULL},
	{"dice",            read_number,   0,              FINDING(dice),            0, 1, NULL},
	{NULL, NULL, 0, 0, 0, 0, NULL}};
/* clang-format on */

static void
read_argument(const char *what, const Field *table, Jsonb *json, void *base)
{
	Reading reading = {what, table, 0, true};

	fields_read(&reading, json, base);
}

static Asked
read_operation(Jsonb *json, OplMoment now)
{
	Asked asked = {.op = {.generation = 1,
						  .trying_since = OPL_NEVER,
						  .first_sent_at = OPL_NEVER,
						  .last_sent_at = OPL_NEVER,
						  .not_after = OPL_NEVER},
				   .clock = {now, OPL_NEVER, OPL_NEVER, 0}};

	read_argument("operation", operation_fields, json, &asked);
	return asked;
}

/* The defaults of an empty spec, but no jitter: a table wants exact moments. */
static OplPromises
read_promises(Jsonb *json)
{
	Jsonb *empty = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	OplPromises promises = spec_read("spec", empty, SPEC_MERGED, false)->promises;

	promises.jitter = 0;
	read_argument("promises", judge_promises, json, &promises);
	return promises;
}

static OplFinding
read_finding(Jsonb *json, OplMoment now)
{
	OplFinding finding = {
		.started_at = now, .retry_at = OPL_NEVER, .same_generation = true};
	JsonbValue value;

	read_argument("finding", finding_fields, json, &finding);
	if (finding.verdict >= OPL_V_FOUND && !json_member(&json->root, "kind", &value))
		finding.kind = OPL_KIND_LOOKUP;
	return finding;
}

/* (operation, promises, finding, now) -> (state, step, due_at, sealed,
 * contradiction, reason) */
Datum
_op_decide(PG_FUNCTION_ARGS)
{
	OplMoment   now = PG_GETARG_TIMESTAMPTZ(3);
	Asked       asked = read_operation(PG_GETARG_JSONB_P(0), now);
	OplPromises promises = read_promises(PG_GETARG_JSONB_P(1));
	OplFinding  finding = read_finding(PG_GETARG_JSONB_P(2), now);
	OplDecision d = opl_decide(&asked.op, &promises, &finding, asked.clock);
	OplSeal     seal = d.after.sealed;
	Datum       values[6];
	bool        nulls[6] = {false};

	values[0] = CStringGetTextDatum(opl_state_name(d.after.state));
	values[1] = text_or_null(opl_step_name(d.step), &nulls[1]);
	values[2] = moment_or_null(d.due_at, &nulls[2]);
	values[3] =
		text_or_null(seal == OPL_SEAL_NONE ? NULL : opl_seal_name(seal), &nulls[3]);
	values[4] = BoolGetDatum(d.after.contradiction);
	values[5] = text_or_null(d.reason, &nulls[5]);
	PG_RETURN_DATUM(make_row(fcinfo, values, nulls));
}

/* -------------------------------------------------------------- classify */

/* Evidence as a test writes it. */
typedef struct Written
{
	Evidence    evidence;
	int         kind;
	int         phase; /* -1: not said */
	char       *op_id;
	int         generation;
	JsonbValue *body_base64;
	char       *error;
	JsonbValue *body;
	JsonbValue *headers;
} Written;

#define EVIDENCE(member) offsetof(Written, evidence.member)
#define WRITTEN(member) offsetof(Written, member)

/* clang-format off */
static const Field evidence_fields[] = {
	{"kind",         read_choice,  0, WRITTEN(kind),         0, 0, kinds},
	{"sent",         read_boolean, 0, EVIDENCE(sent),        0, 0, NULL},
	{"too_late",     read_boolean, 0, EVIDENCE(too_late),    0, 0, NULL},
	{"phase",        read_choice,  0, WRITTEN(phase),        0, 0, phases},
	{"curl_code",    read_integer, 0, EVIDENCE(curl_code),   0, 0, NULL},
	{"http_status",  read_integer, 0, EVIDENCE(http_status), 0, 0, NULL},
	{"status",       read_integer, 0, EVIDENCE(http_status), 0, 0, NULL},
	{"headers",      read_object,  0, WRITTEN(headers),      0, 0, NULL},
	{"body",         read_any,     0, WRITTEN(body),         0, 0, NULL},
	{"body_base64",  read_any,     0, WRITTEN(body_base64),  0, 0, NULL},
	{"cut",          read_boolean, 0, EVIDENCE(cut),         0, 0, NULL},
	{"error",        read_text,    0, WRITTEN(error),        0, 0, NULL},
	{"retry_after",  read_integer, 0, EVIDENCE(retry_after), 0, 0, NULL},
	{"finished_at",  read_moment,  0, EVIDENCE(finished_at), 0, 0, NULL},
	{"op_id",        read_text,    0, WRITTEN(op_id),        0, 0, NULL},
	{"generation",   read_integer, 0, WRITTEN(generation),   1, PG_INT32_MAX, NULL},
	{NULL, NULL, 0, 0, 0, 0, NULL}};
/* clang-format on */

static void
set_body(Evidence *e, const char *bytes, size_t len)
{
	e->body = memcpy(palloc(len + 1), bytes, len);
	e->body_len = len;
}

static void
write_body(Written *w)
{
	Evidence *e = &w->evidence;

	if (w->body_base64 != NULL && w->body_base64->type == jbvString)
	{
		text  *digits = cstring_to_text_with_len(w->body_base64->val.string.val,
												 w->body_base64->val.string.len);
		bytea *bytes = DatumGetByteaPP(DirectFunctionCall2(
			binary_decode, PointerGetDatum(digits), CStringGetTextDatum("base64")));

		set_body(e, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	}
	else if (w->body != NULL && w->body->type == jbvString)
		set_body(e, w->body->val.string.val, w->body->val.string.len);
	else if (w->body != NULL)
	{
		char *text = JsonbToCString(NULL, &JsonbValueToJsonb(w->body)->root, 0);

		set_body(e, text, strlen(text));
	}
}

/* {"Retry-After": "5"} -> the lines that came over the wire */
static void
write_headers(Written *w)
{
	StringInfoData lines;
	JsonbIterator *it;
	JsonbValue     v;
	int            token;

	initStringInfo(&lines);
	appendStringInfo(&lines, "HTTP/1.1 %03d\r\n", w->evidence.http_status);
	it = w->headers ? JsonbIteratorInit(w->headers->val.binary.data) : NULL;
	while (it != NULL && (token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			appendStringInfo(&lines, "%.*s: ", v.val.string.len, v.val.string.val);
		else if (token == WJB_VALUE && v.type == jbvString)
			appendStringInfo(&lines, "%.*s\r\n", v.val.string.len, v.val.string.val);
		else if (token == WJB_VALUE)
			ereport(ERROR, errcode(OPL_ERR_SPEC),
					errmsg("a header in evidence must be text"));
	}
	w->evidence.headers = lines.data;
	w->evidence.headers_len = lines.len;
}

static void
read_evidence(Jsonb *json, Written *w)
{
	memset(w, 0, sizeof(*w));
	w->evidence.sent = true;
	w->generation = 1;
	w->phase = -1;
	read_argument("evidence", evidence_fields, json, w);
	if (w->phase < 0)
		w->phase = w->evidence.http_status != 0 ? PHASE_DONE
				   : w->evidence.sent           ? PHASE_SENT
												: PHASE_NONE;
	w->evidence.phase = (Phase) w->phase;
	write_body(w);
	write_headers(w);
}

/* (spec, evidence) -> (verdict, reason, external_id, retry_at, keyed, unmarked) */
Datum
_op_classify(PG_FUNCTION_ARGS)
{
	Spec     *spec = spec_read("spec", PG_GETARG_JSONB_P(0), SPEC_MERGED, false);
	Written   w;
	Ours      ours;
	Judgement j;
	Datum     values[6];
	bool      nulls[6] = {false};

	read_evidence(PG_GETARG_JSONB_P(1), &w);
	ours.op_id = w.op_id;
	ours.generation = w.generation;
	ours.name_space = spec->name_space;
	j = w.kind == OPL_KIND_LOOKUP ? classify_lookup(spec, &ours, &w.evidence)
								  : classify_send(spec, &ours, &w.evidence);
	values[0] = CStringGetTextDatum(opl_verdict_name(j.verdict));
	values[1] = text_or_null(j.reason, &nulls[1]);
	values[2] = text_or_null(j.external_id, &nulls[2]);
	values[3] = moment_or_null(j.retry_at, &nulls[3]);
	values[4] = BoolGetDatum(j.keyed);
	values[5] = BoolGetDatum(j.unmarked);
	PG_RETURN_DATUM(make_row(fcinfo, values, nulls));
}
