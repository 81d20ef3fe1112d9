/*
 * windows.c - functions of the product that SQL cannot reach otherwise, for tests.
 *
 * This library is built from the product's own sources (see Makefile) with these
 * functions on top: jsonb or text in, the very function that the product calls, a
 * value out. It has no settings and no shared memory. What works on the ledger's tables
 * is in stored.c; all else here is pure.
 */
#include "postgres.h"

#include "base/canon.h"
#include "base/compat.h"
#include "base/errors.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "session/judge.h"
#include "spec/freeze.h"
#include "spec/profile.h"
#include "spec/signature.h"
#include "spec/spec.h"
#include "spec/template.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(_op_promises);
PG_FUNCTION_INFO_V1(_op_freeze);
PG_FUNCTION_INFO_V1(_op_webhook_check);
PG_FUNCTION_INFO_V1(_op_read_json);
PG_FUNCTION_INFO_V1(_op_id_fault);
PG_FUNCTION_INFO_V1(_op_marker);
PG_FUNCTION_INFO_V1(_op_marker_generation);
PG_FUNCTION_INFO_V1(_op_idempotency_key);
PG_FUNCTION_INFO_V1(_op_template);

static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* -------------------------------------------------------------- promises */

/* Text that read_duration() takes back. */
static char *
duration(int64 microseconds)
{
	if (microseconds % USECS_PER_SEC == 0)
		return psprintf(INT64_FORMAT " s", microseconds / USECS_PER_SEC);
	return psprintf(INT64_FORMAT " us", microseconds);
}

static void
push_text(JsonbParseState **state, enum jbvType type, const char *text)
{
	JsonbValue value = {.type = type};

	value.val.string.val = pstrdup(text);
	value.val.string.len = strlen(text);
	pushJsonbValue(state, WJB_VALUE, &value);
}

static void
push_number(JsonbParseState **state, double number)
{
	JsonbValue value = {.type = jbvNumeric};

	value.val.numeric =
		DatumGetNumeric(DirectFunctionCall1(float8_numeric, Float8GetDatum(number)));
	pushJsonbValue(state, WJB_VALUE, &value);
}

static void
push_boolean(JsonbParseState **state, bool truth)
{
	JsonbValue value = {.type = jbvBool, .val.boolean = truth};

	pushJsonbValue(state, WJB_VALUE, &value);
}

/* One promise as its row of the table reads it. */
static void
push_promise(JsonbParseState **state, const Field *field, const OplPromises *promises)
{
	const char *at = (const char *) promises + field->offset;
	JsonbValue  key = {.type = jbvString};

	key.val.string.val = pstrdup(field->path);
	key.val.string.len = strlen(field->path);
	pushJsonbValue(state, WJB_KEY, &key);
	if (field->read == read_duration)
		push_text(state, jbvString, duration(*(const int64 *) at));
	else if (field->read == read_choice)
		push_text(state, jbvString,
				  ((const char *const *) field->extra)[*(const int *) at]);
	else if (field->read == read_integer)
		push_number(state, *(const int *) at);
	else if (field->read == read_number)
		push_number(state, *(const double *) at);
	else
		push_boolean(state, *(const bool *) at);
}

/* (spec) -> its promises, as _op_decide() takes them */
Datum
_op_promises(PG_FUNCTION_ARGS)
{
	Spec            *spec = spec_read("spec", PG_GETARG_JSONB_P(0), SPEC_MERGED, false);
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (const Field *f = judge_promises; f->path != NULL; f++)
	{
		/* A digest, as _op_place() shows it: no word that _op_decide() takes. */
		if (strcmp(f->path, "place") != 0)
			push_promise(&state, f, &spec->promises);
	}
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

static Datum
text_array(char **texts, int n)
{
	Datum *datums = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		datums[i] = CStringGetTextDatum(texts[i]);
	return PointerGetDatum(construct_array(datums, n, TEXTOID, -1, false, TYPALIGN_INT));
}

static Datum
bytes_or_null(const char *bytes, size_t len, bool *isnull)
{
	bytea *copy;

	*isnull = bytes == NULL;
	if (bytes == NULL)
		return (Datum) 0;
	copy = palloc(VARHDRSZ + len);
	SET_VARSIZE(copy, VARHDRSZ + len);
	memcpy(VARDATA(copy), bytes, len);
	return PointerGetDatum(copy);
}

/* (spec, op_id, generation, args, traceparent) -> (key, method, url, headers, body) */
Datum
_op_freeze(PG_FUNCTION_ARGS)
{
	Spec       *spec;
	char       *op_id;
	Jsonb      *args;
	const char *fault;
	char *traceparent = PG_ARGISNULL(4) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(4));
	TupleDesc desc;
	Frozen    frozen;
	Datum     values[5];
	bool      nulls[5] = {false};

	for (int i = 0; i < 4; i++)
	{
		if (PG_ARGISNULL(i))
			PG_RETURN_NULL();
	}
	spec = profile_parse("test", PG_GETARG_JSONB_P(0));
	op_id = text_to_cstring(PG_GETARG_TEXT_PP(1));
	args = PG_GETARG_JSONB_P(3);
	fault = canon_op_id_fault(op_id);
	if (fault != NULL)
		ereport(ERROR, errcode(OPL_ERR_OP_ID), errmsg("the op id %s", fault));
	profile_check_args(spec, "test", args);
	profile_freeze(spec, spec->name_space, op_id, PG_GETARG_INT32(2), args, traceparent,
				   &frozen);
	nulls[0] = frozen.key == NULL;
	values[0] = nulls[0] ? (Datum) 0 : CStringGetTextDatum(frozen.key);
	values[1] = CStringGetTextDatum(frozen.method);
	values[2] = CStringGetTextDatum(frozen.url);
	values[3] = text_array(frozen.headers, frozen.nheaders);
	values[4] = bytes_or_null(frozen.body, frozen.body_len, &nulls[4]);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	PG_RETURN_DATUM(
		HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* (webhook, secret, headers, body, now) -> good, bad, stale, no_key */
Datum
_op_webhook_check(PG_FUNCTION_ARGS)
{
	static const char *const words[] = {[SIGNATURE_GOOD] = "good",
										[SIGNATURE_BAD] = "bad",
										[SIGNATURE_STALE] = "stale",
										[SIGNATURE_NO_KEY] = "no_key"};
	Jsonb                   *webhook = PG_GETARG_JSONB_P(0);
	char  *spec = psprintf("{\"webhook\": %s}", JsonbToCString(NULL, &webhook->root, 0));
	Datum  json = DirectFunctionCall1(jsonb_in, CStringGetDatum(spec));
	Spec  *read = spec_read("webhook", DatumGetJsonbP(json), SPEC_PROVIDER, false);
	bytea *body = PG_GETARG_BYTEA_PP(3);
	const char *fault = signature_fault(&read->webhook.signature);

	if (fault != NULL)
		ereport(ERROR, errcode(OPL_ERR_SPEC), errmsg("field webhook.%s", fault));
	PG_RETURN_TEXT_P(cstring_to_text(words[signature_check(
		&read->webhook.signature, text_to_cstring(PG_GETARG_TEXT_PP(1)),
		PG_GETARG_JSONB_P(2), VARDATA_ANY(body), VARSIZE_ANY_EXHDR(body),
		PG_GETARG_TIMESTAMPTZ(4))]));
}
/* ------------------------------------------------------------ what is below */

/* _op_read_json(body bytea) RETURNS jsonb, NULL: no JSON that can be read */
Datum
_op_read_json(PG_FUNCTION_ARGS)
{
	bytea *body = PG_GETARG_BYTEA_PP(0);
	Jsonb *json = canon_read_json(VARDATA_ANY(body), VARSIZE_ANY_EXHDR(body));

	if (json == NULL)
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(json);
}

/* _op_id_fault(op_id text) RETURNS text, NULL: it is one */
Datum
_op_id_fault(PG_FUNCTION_ARGS)
{
	const char *fault = canon_op_id_fault(text_arg(fcinfo, 0));

	if (fault == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(fault));
}

/* The namespace, which a provider need not have. */
static char *
namespace_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_arg(fcinfo, n);
}

static bool
any_null(FunctionCallInfo fcinfo, int first, int last)
{
	for (int n = first; n <= last; n++)
		if (PG_ARGISNULL(n))
			return true;
	return false;
}

/* _op_marker(namespace text, op_id text, generation int) RETURNS text */
Datum
_op_marker(PG_FUNCTION_ARGS)
{
	if (any_null(fcinfo, 1, 2))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(
		canon_marker(namespace_arg(fcinfo, 0), text_arg(fcinfo, 1), PG_GETARG_INT32(2))));
}

/* _op_marker_generation(marker text, namespace text, op_id text) RETURNS int */
Datum
_op_marker_generation(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	PG_RETURN_INT32(canon_marker_generation(text_arg(fcinfo, 0), namespace_arg(fcinfo, 1),
											text_arg(fcinfo, 2)));
}

static KeyFormat
key_format(const char *name)
{
	static const char *const names[] = {[KEY_RAW] = "raw",
										[KEY_QUOTED] = "quoted",
										[KEY_UUID] = "uuid",
										[KEY_SHA256] = "sha256"};

	for (int i = 0; i < lengthof(names); i++)
		if (strcmp(names[i], name) == 0)
			return (KeyFormat) i;
	ereport(ERROR, (errcode(OPL_ERR_SPEC), errmsg("unknown key format \"%s\"", name),
					errhint("Key formats are raw, quoted, uuid and sha256.")));
	return KEY_RAW; /* keep the compiler quiet */
}

/* _op_idempotency_key(format text, max int, namespace text, op_id text,
 * generation int) RETURNS text */
Datum
_op_idempotency_key(PG_FUNCTION_ARGS)
{
	if (any_null(fcinfo, 0, 1) || any_null(fcinfo, 3, 4))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(
		canon_key(key_format(text_arg(fcinfo, 0)), PG_GETARG_INT32(1),
				  namespace_arg(fcinfo, 2), text_arg(fcinfo, 3), PG_GETARG_INT32(4))));
}

/* A member of `names` as a C string, NULL when it is not there. */
static char *
member(Jsonb *names, const char *name)
{
	JsonbValue value;

	if (!JB_ROOT_IS_OBJECT(names) ||
		!getKeyJsonValueFromContainer(&names->root, name, (int) strlen(name), &value) ||
		value.type != jbvString)
		return NULL;
	return pnstrdup(value.val.string.val, value.val.string.len);
}

/* A jsonb as the template functions take their values. */
static JsonbValue
whole(Jsonb *json)
{
	JsonbValue value;

	value.type = jbvBinary;
	value.val.binary.data = &json->root;
	value.val.binary.len = VARSIZE(json) - VARHDRSZ;
	return value;
}

static void
render(StringInfo out, const char *kind, const JsonbValue *template, const Scope *scope)
{
	static const char *const escapes[] = {
		[ESCAPE_NONE] = "text", [ESCAPE_PATH] = "path", [ESCAPE_QUERY] = "query"};

	if (strcmp(kind, "json") == 0)
		template_json(out, template, scope);
	else if (strcmp(kind, "form") == 0)
		template_form(out, template, scope);
	else if (strcmp(kind, "names") == 0)
	{
		ListCell *cell;

		foreach (cell, template_names(template))
			appendStringInfo(out, "%s%s", out->len ? "," : "", (char *) lfirst(cell));
	}
	else
	{
		JsonbValue string;

		if (!JsonbExtractScalar(template->val.binary.data, &string) ||
			string.type != jbvString)
			elog(ERROR, "a template of kind \"%s\" is a string", kind);
		for (int i = 0; i < lengthof(escapes); i++)
			if (strcmp(kind, escapes[i]) == 0)
				appendStringInfoString(out, template_text(pnstrdup(string.val.string.val,
																   string.val.string.len),
														  scope, (Escape) i));
	}
}

/* _op_template(kind text, template jsonb, args jsonb, names jsonb) RETURNS text;
 * kind is text, path, query, form, json, or names: those it uses. */
Datum
_op_template(PG_FUNCTION_ARGS)
{
	Jsonb *names = PG_GETARG_JSONB_P(3);
	JsonbValue template = whole(PG_GETARG_JSONB_P(1));
	StringInfoData out;
	Scope          scope = {0};

	scope.args = PG_GETARG_JSONB_P(2);
	scope.op_id = member(names, "op_id");
	scope.marker = member(names, "marker");
	scope.external_id = member(names, "external_id");
	scope.key = member(names, "key");
	initStringInfo(&out);
	render(&out, text_arg(fcinfo, 0), &template, &scope);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
