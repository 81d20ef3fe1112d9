/*
 * jsonpath.c - jsonpaths from a spec, run on any JSON.
 *
 * Invariants:
 *
 *  1. A path that got through scan_path() never raises when it runs, whatever
 *     it runs on: no variables and no methods of date and time, which throw
 *     even when silent; everything else is silent and answers nothing.
 *  2. Of a condition only `true` counts.
 */
#include "postgres.h"

#include "base/jsonpath.h"

#include "base/scan.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

/* ----------------------------------------------------------- jsonpaths in */

/* {}, made once. */
static Jsonb *
empty_object(void)
{
	static Jsonb *empty = NULL;

	if (empty == NULL)
	{
		MemoryContext context = MemoryContextSwitchTo(TopMemoryContext);

		empty = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
		MemoryContextSwitchTo(context);
	}
	return empty;
}

/* Methods that throw on time zones even when silent; later versions have more
 * of them than `datetime`. */
static const char *const timed_methods[] = {"datetime", "date",      "time",
											"time_tz",  "timestamp", "timestamp_tz"};

/* A path as PostgreSQL writes it: names in quotes, predicates in parentheses,
 * and so easy to look through. */
static char *
written(JsonPath *path)
{
	return DatumGetCString(DirectFunctionCall1(jsonpath_out, PointerGetDatum(path)));
}

/* The end of a quoted string that begins at `p`. */
static const char *
skip_quoted(const char *p)
{
	for (p++; *p != '\0' && *p != '"'; p++)
	{
		if (*p == '\\' && p[1] != '\0')
			p++;
	}
	return *p == '"' ? p + 1 : p;
}

/* The next `token` outside quoted strings, or NULL. */
static const char *
find_token(const char *p, const char *token)
{
	size_t len = strlen(token);

	while (*p != '\0')
	{
		if (strncmp(p, token, len) == 0)
			return p;
		p = *p == '"' ? skip_quoted(p) : p + 1;
	}
	return NULL;
}

static char *
forbidden(const char *text, bool condition)
{
	if (find_token(text, "$\"") != NULL)
		return "a variable has no value here";
	for (int i = 0; i < lengthof(timed_methods); i++)
	{
		if (find_token(text, psprintf(".%s(", timed_methods[i])) != NULL)
			return psprintf("the method .%s() is not available here", timed_methods[i]);
	}
	if (condition && strncmp(text, "strict ", 7) == 0)
		text += 7;
	if (condition && *text == '$' && find_token(text, "?(") != NULL)
		return "a filter is neither true nor false: write exists(…) around it";
	return NULL;
}

JsonPath *
scan_path(const char *text, bool condition, char **fault)
{
	Datum     datum;
	JsonPath *path;

	if (pg_mbstrlen(text) > SCAN_PATH_MAX)
	{
		*fault = psprintf("it is longer than %d characters", SCAN_PATH_MAX);
		return NULL;
	}
	if (!scan_input(jsonpath_in, text, &datum, fault))
		return NULL;
	path = (JsonPath *) DatumGetPointer(datum);
	*fault = forbidden(written(path), condition);
	if (*fault != NULL)
		return NULL;
	/* What is wrong only when it runs is to show now, not at an answer. */
	(void) path_all(path, empty_object());
	return path;
}

JsonPath *
scan_path_list(const char *text)
{
	char       *fault;
	JsonPath   *path = scan_path(text, false, &fault);
	const char *last = NULL;
	const char *next;
	char       *all;

	if (path == NULL)
		return NULL;
	all = written(path);
	for (next = find_token(all, "[*]"); next != NULL; next = find_token(next + 3, "[*]"))
		last = next;
	if (last == NULL)
		return NULL;
	return scan_path(pnstrdup(all, last - all), false, &fault);
}

/* ------------------------------------------------------- jsonpaths at work */

/* One of jsonb_path_…(json, path, no variables, silent). NULL answers are not
 * for DirectFunctionCall. */
static Datum
run(PGFunction function, JsonPath *path, Jsonb *json, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 4);
	Datum result;

	InitFunctionCallInfoData(*fcinfo, NULL, 4, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = JsonbPGetDatum(json);
	fcinfo->args[1].value = PointerGetDatum(path);
	fcinfo->args[2].value = JsonbPGetDatum(empty_object());
	fcinfo->args[3].value = BoolGetDatum(true);
	for (int i = 0; i < 4; i++)
		fcinfo->args[i].isnull = false;
	result = function(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

bool
path_holds(JsonPath *path, Jsonb *json)
{
	bool  isnull;
	Datum result = run(jsonb_path_match, path, json, &isnull);

	return !isnull && DatumGetBool(result);
}

Jsonb *
path_first(JsonPath *path, Jsonb *json)
{
	bool  isnull;
	Datum result = run(jsonb_path_query_first, path, json, &isnull);

	return isnull ? NULL : DatumGetJsonbP(result);
}

Jsonb *
path_all(JsonPath *path, Jsonb *json)
{
	bool isnull;

	return DatumGetJsonbP(run(jsonb_path_query_array, path, json, &isnull));
}

/* Most paths to a name lead from object to member, "$.a.b". To walk there takes a
 * quarter of what it takes to run the path. False: it must be run to know. */
static bool
walk(JsonPath *path, Jsonb *json, JsonbValue *value)
{
	JsonPathItem step, next;
	char        *name;
	int          len;

	JsonbToJsonbValue(json, value);
	jspInit(&step, path);
	if (step.type != jpiRoot)
		return false;
	for (; jspGetNext(&step, &next); step = next)
	{
		if (next.type != jpiKey || value->type != jbvBinary ||
			!JsonContainerIsObject(value->val.binary.data))
			return false;
		name = jspGetString(&next, &len);
		if (!getKeyJsonValueFromContainer(value->val.binary.data, name, len, value))
			return false;
	}
	return value->type != jbvBinary;
}

/* What the path finds first, if it is a scalar. */
static bool
find_scalar(JsonPath *path, Jsonb *json, JsonbValue *value)
{
	Jsonb *found;

	if (walk(path, json, value))
		return true;
	found = path_first(path, json);
	if (found == NULL || !JB_ROOT_IS_SCALAR(found))
		return false;
	*value = *getIthJsonbValueFromContainer(&found->root, 0);
	return true;
}

char *
path_text(JsonPath *path, Jsonb *json)
{
	JsonbValue value;

	if (!find_scalar(path, json, &value))
		return NULL;
	if (value.type == jbvString && value.val.string.len > 0)
		return pnstrdup(value.val.string.val, value.val.string.len);
	if (value.type == jbvNumeric)
		return DatumGetCString(
			DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
	return NULL;
}
