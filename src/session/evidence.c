/*
 * evidence.c - what was sent and what came back, as people may see it.
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/canon.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "spec/answer.h"
#include "spec/redact.h"
#include "base/tree.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

PG_FUNCTION_INFO_V1(_op_redact);
PG_FUNCTION_INFO_V1(_op_shown);
PG_FUNCTION_INFO_V1(_op_lossy_text);

/* An array of texts; specs are checked, so that what is no path is a fault. */
static List *
paths_argument(FunctionCallInfo fcinfo, int n)
{
	List  *paths = NIL;
	Jsonb *array = PG_ARGISNULL(n) ? NULL : PG_GETARG_JSONB_P(n);

	if (array == NULL || !JB_ROOT_IS_ARRAY(array) || JB_ROOT_IS_SCALAR(array))
		return NIL;
	for (uint32 i = 0; i < JB_ROOT_COUNT(array); i++)
	{
		JsonbValue *text = getIthJsonbValueFromContainer(&array->root, i);
		RedactPath *path = NULL;

		if (text->type == jbvString)
			path = redact_parse(pnstrdup(text->val.string.val, text->val.string.len));
		if (path == NULL)
			ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("element %u of the paths to redact is none", i));
		paths = lappend(paths, path);
	}
	return paths;
}

Datum
_op_redact(PG_FUNCTION_ARGS)
{
	List *paths = paths_argument(fcinfo, 1);

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	if (paths == NIL)
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	PG_RETURN_JSONB_P(redact_json(PG_GETARG_JSONB_P(0), paths));
}

/* ----------------------------------------------------------------- bodies */

typedef struct Shown
{
	const char *as; /* text, json, base64, withheld */
	char       *json;
} Shown;

static char *
json_string(const char *text, size_t len)
{
	StringInfoData out;

	initStringInfo(&out);
	canon_json_string(&out, text, len);
	return out.data;
}

static Shown
show_all(const char *body, size_t len)
{
	Shown  shown = {"text", NULL};
	char  *base64;
	bytea *copy;

	if (memchr(body, '\0', len) == NULL && pg_verify_mbstr(PG_UTF8, body, len, true))
	{
		shown.json = json_string(body, len);
		return shown;
	}
	copy = palloc(len + VARHDRSZ);
	SET_VARSIZE(copy, len + VARHDRSZ);
	memcpy(VARDATA(copy), body, len);
	base64 = TextDatumGetCString(DirectFunctionCall2(binary_encode, PointerGetDatum(copy),
													 CStringGetTextDatum("base64")));
	shown.as = "base64";
	shown.json = json_string(base64, strlen(base64));
	return shown;
}

/* What cannot be taken apart is not shown at all. */
static Shown
show_redacted(const char *body, size_t len, bool form, List *paths)
{
	Shown  shown = {"json", NULL};
	Jsonb *json;

	if (form)
		return show_all(redact_form(body, len, paths),
						strlen(redact_form(body, len, paths)));
	json = canon_read_json(body, len);
	if (json != NULL)
	{
		json = redact_json(json, paths);
		shown.json = JsonbToCString(NULL, &json->root, 0);
		return shown;
	}
	shown.as = "withheld";
	shown.json = "\"it is no JSON, and there is something to redact\"";
	return shown;
}

/* Without what was put on it for the way, as far as its headers say. */
static Plain
plain_argument(FunctionCallInfo fcinfo, bytea *body)
{
	bytea *headers = PG_ARGISNULL(3) ? NULL : PG_GETARG_BYTEA_PP(3);

	if (headers == NULL)
		return (Plain){.data = VARDATA_ANY(body), .len = VARSIZE_ANY_EXHDR(body)};
	return answer_plain(VARDATA_ANY(headers), VARSIZE_ANY_EXHDR(headers),
						VARDATA_ANY(body), VARSIZE_ANY_EXHDR(body), CANON_JSON_MAX);
}

/* Length and digest are those of the bytes that came. */
Datum
_op_shown(PG_FUNCTION_ARGS)
{
	List          *paths = paths_argument(fcinfo, 2);
	bool           form = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	bytea         *body;
	size_t         len;
	Plain          plain;
	Shown          shown;
	uint8          digest[CANON_DIGEST_LEN];
	StringInfoData out;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	body = PG_GETARG_BYTEA_PP(0);
	len = VARSIZE_ANY_EXHDR(body);
	plain = plain_argument(fcinfo, body);
	shown = paths == NIL || len == 0 ? show_all(plain.data, plain.len)
									 : show_redacted(plain.data, plain.len, form, paths);
	canon_sha256(VARDATA_ANY(body), len, digest);
	initStringInfo(&out);
	appendStringInfo(&out, "{\"bytes\": %zu, \"sha256\": \"%s\", \"%s\": %s}", len,
					 canon_hex(digest, CANON_DIGEST_LEN), shown.as, shown.json);
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(out.data)));
}

/* _op_lossy_text(bytes bytea) RETURNS text */
Datum
_op_lossy_text(PG_FUNCTION_ARGS)
{
	bytea *bytes = PG_GETARG_BYTEA_PP(0);

	PG_RETURN_TEXT_P(
		cstring_to_text(canon_lossy_text(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes))));
}
