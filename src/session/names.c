/*
 * names.c - op ids computed from what is done, and canonical JSON.
 *
 * Invariants:
 *
 *  1. op_key() gives different lists of parts different ids: "-" stands between
 *     parts only, since inside of one it is "%2D", and "%" is "%25". Parts that
 *     differ only by blanks at the ends, or by how an accent is composed, are
 *     the same part.
 *  2. Nothing here depends on who asks, when, or on a setting: all is IMMUTABLE,
 *     so the same deed has the same name in every session.
 *  3. Nothing is dropped silently: a part that is NULL or empty is refused, for
 *     without it two deeds would share a name.
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/canon.h"
#include "catalog/pg_type.h"
#include "base/errors.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

PG_FUNCTION_INFO_V1(op_key);
PG_FUNCTION_INFO_V1(op_run_key);
PG_FUNCTION_INFO_V1(op_canonical_json);

static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* ----------------------------------------------------------------- op_key */

/* One form per text: composed accents, no white space at the ends. */
static char *
normal_form(Datum part)
{
	Datum composed = DirectFunctionCall2(unicode_normalize_func, part,
										 PointerGetDatum(cstring_to_text("NFC")));

	return canon_trim(TextDatumGetCString(composed));
}

static void
append_part(StringInfo id, const char *part)
{
	for (; *part; part++)
	{
		if (*part == '-' || *part == '%')
			appendStringInfo(id, "%%%02X", (unsigned char) *part);
		else
			appendStringInfoCharMacro(id, *part);
	}
}

/* `n` counts the parts from 1; 0 is the kind. */
static void
add_part(StringInfo id, int n, Datum value, bool isnull)
{
	char *what = n == 0 ? pstrdup("the kind") : psprintf("part %d", n);
	char *part = isnull ? NULL : normal_form(value);

	if (part == NULL || *part == '\0')
		ereport(ERROR,
				(errcode(OPL_ERR_OP_ID),
				 errmsg("%s of an op id is %s", what, part ? "empty" : "null"),
				 errdetail("Without it, operations that differ would share one id."),
				 errhint("Compute the id from values that are always there.")));
	if (n > 0)
		appendStringInfoChar(id, '-');
	append_part(id, part);
}

/* The parts of the VARIADIC array, each checked. */
static void
add_parts(StringInfo id, ArrayType *array)
{
	Datum *values;
	bool  *nulls;
	int    n;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR, (errcode(OPL_ERR_OP_ID),
						errmsg("parts of an op id are an array of %d dimensions",
							   ARR_NDIM(array)),
						errhint("Pass the parts one after another.")));
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &n);
	if (n == 0)
		ereport(ERROR,
				(errcode(OPL_ERR_OP_ID), errmsg("an op id has no parts"),
				 errdetail("Its kind alone would name every operation of that kind."),
				 errhint("Pass what tells this operation from all others.")));
	for (int i = 0; i < n; i++)
		add_part(id, i + 1, values[i], nulls[i]);
}

static void
check_result(const char *id)
{
	const char *fault = canon_op_id_fault(id);
	bool        too_long = fault && pg_mbstrlen(id) > CANON_OP_ID_MAX;

	if (fault)
		ereport(ERROR, (errcode(OPL_ERR_OP_ID), errmsg("the parts do not make an op id"),
						errdetail("The op id %s.", fault),
						too_long ? errhint("Put a digest in the place of the longest "
										   "part: encode(sha256(part), 'hex').")
								 : errhint("Compute the id from printable text that does "
										   "not end in \"~\" and digits.")));
}

/* op_key(kind text, VARIADIC parts text[]) RETURNS text */
Datum
op_key(PG_FUNCTION_ARGS)
{
	StringInfoData id;

	initStringInfo(&id);
	add_part(&id, 0, PG_GETARG_DATUM(0), PG_ARGISNULL(0));
	if (PG_ARGISNULL(1))
		add_part(&id, 1, (Datum) 0, true);
	else
		add_parts(&id, PG_GETARG_ARRAYTYPE_P(1));
	check_result(id.data);
	PG_RETURN_TEXT_P(cstring_to_text(id.data));
}

/* ------------------------------------------------------------- op_run_key */

static void
add_run_part(StringInfo id, FunctionCallInfo fcinfo, int n, const char *what)
{
	char       *part = PG_ARGISNULL(n) ? NULL : text_arg(fcinfo, n);
	const char *fault = NULL;

	if (part == NULL)
		fault = "is null";
	else if (*part == '\0')
		fault = "is empty";
	else if (strchr(part, ':'))
		fault = "contains a \":\"";
	if (fault)
		ereport(ERROR, (errcode(OPL_ERR_OP_ID), errmsg("%s of a run key %s", what, fault),
						errdetail("The key is the digest of run:step:tool:arguments, "
								  "which must be read in one way only."),
						errhint("Name runs, steps and tools without a colon.")));
	appendStringInfo(id, "%s:", part);
}

/* op_run_key(run_id text, step text, tool text, args jsonb) RETURNS text */
Datum
op_run_key(PG_FUNCTION_ARGS)
{
	StringInfoData id;
	uint8          digest[CANON_DIGEST_LEN];

	initStringInfo(&id);
	add_run_part(&id, fcinfo, 0, "run_id");
	add_run_part(&id, fcinfo, 1, "step");
	add_run_part(&id, fcinfo, 2, "tool");
	if (PG_ARGISNULL(3))
		ereport(ERROR, (errcode(OPL_ERR_OP_ID), errmsg("args of a run key is null"),
						errdetail("Without it, calls that differ would share one key."),
						errhint("Pass '{}' for a call without arguments.")));
	canon_json(&id, PG_GETARG_JSONB_P(3));
	canon_sha256(id.data, id.len, digest);
	PG_RETURN_TEXT_P(cstring_to_text(canon_hex(digest, CANON_DIGEST_LEN)));
}

/* op_canonical_json(jsonb) RETURNS text */
Datum
op_canonical_json(PG_FUNCTION_ARGS)
{
	StringInfoData out;

	initStringInfo(&out);
	canon_json(&out, PG_GETARG_JSONB_P(0));
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
