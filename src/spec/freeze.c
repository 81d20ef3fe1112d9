/*
 * freeze.c - spec and arguments -> the request of an operation.
 *
 * Invariants:
 *
 *  1. The same spec, op id, generation and arguments give the same bytes.
 *  2. No secret is in what is frozen; it is read when sending.
 *  3. A header is one line, also after arguments came into it. An error names
 *     the header, never its value.
 */
#include "postgres.h"

#include "spec/freeze.h"

#include "common/base64.h"
#include "base/errors.h"
#include "spec/fields.h"
#include "mb/pg_wchar.h"
#include "base/jsonpath.h"
#include "spec/secret.h"
#include "spec/template.h"
#include "base/tree.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "spec/wire.h"

/* A longer cursor is none that a provider takes back. */
#define LONGEST_CURSOR 2000

/* ------------------------------------------------------------- arguments */

static _Noreturn void
wrong_argument(const char *action, const char *name, const char *must, const char *detail)
{
	ereport(ERROR, errcode(OPL_ERR_ARGUMENT),
			errmsg("argument \"%s\" of action \"%s\" %s", name, action, must),
			detail ? errdetail("%s", detail) : 0);
}

static char *
numeric_text(Numeric number)
{
	return DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number)));
}

static bool
is_integer(const JsonbValue *value)
{
	char *text;

	if (value->type != jbvNumeric)
		return false;
	text = numeric_text(value->val.numeric);
	if (*text == '-')
		text++;
	return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

static bool
is_text(const JsonbValue *value)
{
	return value->type == jbvString;
}

static bool
is_number(const JsonbValue *value)
{
	return value->type == jbvNumeric;
}

static bool
is_boolean(const JsonbValue *value)
{
	return value->type == jbvBool;
}

static const struct
{
	const char *type;
	bool (*fits)(const JsonbValue *value);
	const char *must;
} type_tests[] = {
	{"text", is_text, "must be text"},
	{"integer", is_integer, "must be an integer, written without a point or exponent"},
	{"number", is_number, "must be a number"},
	{"boolean", is_boolean, "must be true or false"},
	{"object", json_is_object, "must be an object"},
	{"array", json_is_array, "must be an array"},
};

static void
check_type(const SpecArg *arg, const char *action, const JsonbValue *value)
{
	for (int i = 0; i < lengthof(type_tests); i++)
	{
		if (strcmp(arg->type, type_tests[i].type) == 0 && !type_tests[i].fits(value))
			wrong_argument(action, arg->name, type_tests[i].must,
						   psprintf("It is %s.", json_kind(value)));
	}
}

/* What min and max are about: the value of a number, the length of all else. */
static Numeric
size_of(const JsonbValue *value)
{
	if (value->type == jbvNumeric)
		return value->val.numeric;
	if (value->type == jbvString)
		return int64_to_numeric(
			pg_mbstrlen_with_len(value->val.string.val, value->val.string.len));
	if (value->type == jbvBinary)
		return int64_to_numeric(JsonContainerSize(value->val.binary.data));
	return NULL;
}

static int
compare(Numeric a, Numeric b)
{
	return DatumGetInt32(
		DirectFunctionCall2(numeric_cmp, NumericGetDatum(a), NumericGetDatum(b)));
}

static void
check_bounds(const SpecArg *arg, const char *action, const JsonbValue *value)
{
	Numeric     size = size_of(value);
	const char *of = value->type == jbvNumeric ? "" : " long";

	if (size == NULL)
		return;
	if (arg->has_min && compare(size, arg->min) < 0)
		wrong_argument(action, arg->name,
					   psprintf("must be at least %s%s", numeric_text(arg->min), of),
					   NULL);
	if (arg->has_max && compare(size, arg->max) > 0)
		wrong_argument(action, arg->name,
					   psprintf("must be at most %s%s", numeric_text(arg->max), of),
					   NULL);
}

static void
check_one_of(const SpecArg *arg, const char *action, const JsonbValue *value)
{
	JsonbValue sought = *value;

	if (arg->one_of == NULL)
		return;
	if (IsAJsonbScalar(value) &&
		findJsonbValueFromContainer(&arg->one_of->root, JB_FARRAY, &sought) != NULL)
		return;
	wrong_argument(action, arg->name, "is none of the values it may have",
				   psprintf("They are %s.", JsonbToCString(NULL, &arg->one_of->root, 0)));
}

static void
check_argument(const SpecArg *arg, const char *action, Jsonb *args)
{
	JsonbValue value;

	if (!json_member(&args->root, arg->name, &value))
	{
		if (arg->optional)
			return;
		wrong_argument(action, arg->name, "is missing", NULL);
	}
	check_type(arg, action, &value);
	check_bounds(arg, action, &value);
	check_one_of(arg, action, &value);
}

static _Noreturn void
unknown_argument(const Spec *spec, const char *action, const char *name)
{
	const char   **names = palloc(sizeof(char *) * (spec->nargs + 1));
	const char    *meant;
	StringInfoData all;

	initStringInfo(&all);
	for (int i = 0; i < spec->nargs; i++)
	{
		names[i] = spec->args[i].name;
		appendStringInfo(&all, "%s%s", i > 0 ? ", " : "", names[i]);
	}
	meant = nearest_name(name, names, spec->nargs);
	ereport(ERROR, errcode(OPL_ERR_ARGUMENT),
			errmsg("action \"%s\" has no argument \"%s\"", action, name),
			meant             ? errhint("Perhaps you meant \"%s\".", meant)
			: spec->nargs > 0 ? errhint("It takes: %s.", all.data)
							  : errhint("It takes no arguments."));
}

void
profile_check_args(const Spec *spec, const char *action, Jsonb *args)
{
	JsonbIterator *it;
	JsonbValue     v;
	int            token;

	if (!JB_ROOT_IS_OBJECT(args))
		ereport(ERROR, errcode(OPL_ERR_ARGUMENT),
				errmsg("arguments of action \"%s\" must be a JSON object", action));
	it = JsonbIteratorInit(&args->root);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		bool  known = false;
		char *name;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(v.val.string.val, v.val.string.len);
		for (int i = 0; i < spec->nargs && !known; i++)
			known = strcmp(spec->args[i].name, name) == 0;
		if (!known)
			unknown_argument(spec, action, name);
	}
	for (int i = 0; i < spec->nargs; i++)
		check_argument(&spec->args[i], action, args);
}

/* --------------------------------------------------------------- headers */

const char *
profile_header_fault(const char *line)
{
	return wire_header_fault(line);
}

static void
add_header(Frozen *frozen, const char *name, const char *value)
{
	char       *line = psprintf("%s: %s", name, value);
	const char *fault = wire_header_fault(line);

	if (fault != NULL)
		ereport(ERROR, errcode(OPL_ERR_ARGUMENT), errmsg("header \"%s\" %s", name, fault),
				errdetail("A header is one line of printable text."));
	frozen->headers[frozen->nheaders++] = line;
}

/* Is it only an argument, and was that not given? */
static bool
is_left_out(const JsonbValue *value, const Scope *scope)
{
	JsonbValue argument;
	char      *text = pnstrdup(value->val.string.val, value->val.string.len);
	List      *names = template_names(value);

	if (list_length(names) != 1 ||
		strcmp(text, psprintf("{%s}", (char *) linitial(names))) != 0)
		return false;
	if (strcmp(linitial(names), "op_id") == 0 || strcmp(linitial(names), "marker") == 0 ||
		strcmp(linitial(names), "key") == 0)
		return false;
	return !json_member(&scope->args->root, linitial(names), &argument);
}

/* The spec's own headers. True: one of them is Content-Type. */
static bool
add_spec_headers(const Spec *spec, const Scope *scope, Frozen *frozen)
{
	JsonbIterator *it;
	JsonbValue     v;
	int            token;
	bool           typed = false;

	if (spec->headers == NULL)
		return false;
	it = JsonbIteratorInit(spec->headers->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char *name;
		char *template;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		if (v.type != jbvString || is_left_out(&v, scope))
			continue;
		template = pnstrdup(v.val.string.val, v.val.string.len);
		add_header(frozen, name, template_text(template, scope, ESCAPE_NONE));
		typed = typed || pg_strcasecmp(name, "content-type") == 0;
	}
	return typed;
}

static const char *const content_types[] = {[BODY_NONE] = NULL,
											[BODY_FORM] =
												"application/x-www-form-urlencoded",
											[BODY_JSON] = "application/json"};

static void
add_headers(const Spec *spec, const Scope *scope, const char *traceparent, BodyKind body,
			Frozen *frozen)
{
	int  count = spec->headers ? JsonContainerSize(spec->headers->val.binary.data) : 0;
	bool typed;

	frozen->headers = palloc(sizeof(char *) * (count + 4));
	typed = add_spec_headers(spec, scope, frozen);
	if (!typed && content_types[body] != NULL)
		add_header(frozen, "Content-Type", content_types[body]);
	if (traceparent != NULL)
		add_header(frozen, "traceparent", traceparent);
}

/* ------------------------------------------------------------- requests */

static Scope
make_scope(const Spec *spec, const char *name_space, const char *op_id, int generation,
		   Jsonb *args)
{
	Scope scope = {.args = args, .op_id = op_id};

	scope.marker = canon_marker(name_space, op_id, generation);
	if (spec->key_place != KEY_IN_NONE)
		scope.key =
			canon_key(spec->key_format, spec->key_max, name_space, op_id, generation);
	return scope;
}

static Scope
scope_of(const Subject *subject)
{
	Scope scope = {.args = subject->args,
				   .op_id = subject->op_id,
				   .key = subject->key,
				   .external_id = subject->external_id};

	scope.marker = canon_marker(subject->name_space, subject->op_id, subject->generation);
	return scope;
}

static char *
render_url(const char *base_url, const char *path, const JsonbValue *query,
		   const Scope *scope)
{
	StringInfoData url;
	StringInfoData parameters;

	initStringInfo(&url);
	appendStringInfoString(&url, base_url);
	appendStringInfoString(&url, template_text(path, scope, ESCAPE_PATH));
	if (query == NULL)
		return url.data;
	initStringInfo(&parameters);
	template_form(&parameters, query, scope);
	if (parameters.len > 0)
		appendStringInfo(&url, "?%s", parameters.data);
	return url.data;
}

static void
render_body(const Spec *spec, const Scope *scope, Frozen *frozen)
{
	StringInfoData body;

	if (spec->body_kind == BODY_NONE)
		return;
	initStringInfo(&body);
	if (spec->body_kind == BODY_FORM)
		template_form(&body, spec->body, scope);
	else
		template_json(&body, spec->body, scope);
	frozen->body = body.data;
	frozen->body_len = body.len;
}

void
profile_freeze(const Spec *spec, const char *name_space, const char *op_id,
			   int generation, Jsonb *args, const char *traceparent, Frozen *frozen)
{
	Scope scope = make_scope(spec, name_space, op_id, generation, args);

	memset(frozen, 0, sizeof(*frozen));
	frozen->key = scope.key ? pstrdup(scope.key) : NULL;
	frozen->method = pstrdup(spec->method);
	frozen->url = render_url(spec->base_url, spec->path, spec->query, &scope);
	add_headers(spec, &scope, traceparent, spec->body_kind, frozen);
	if (spec->key_place == KEY_IN_HEADER)
		add_header(frozen, spec->key_name, scope.key);
	render_body(spec, &scope, frozen);
}

static void
freeze_get(const Spec *spec, const Subject *subject, const char *path,
		   const JsonbValue *query, Frozen *frozen)
{
	Scope scope = scope_of(subject);

	memset(frozen, 0, sizeof(*frozen));
	frozen->method = pstrdup("GET");
	frozen->url = render_url(subject->base_url, path, query, &scope);
	add_headers(spec, &scope, NULL, BODY_NONE, frozen);
}

void
profile_lookup(const Spec *spec, const Subject *subject, Frozen *frozen)
{
	freeze_get(spec, subject, spec->lookup_path, spec->lookup_query, frozen);
}

void
profile_poll(const Spec *spec, const Subject *subject, Frozen *frozen)
{
	freeze_get(spec, subject, spec->poll_path, spec->poll_query, frozen);
}

static void
push_string(JsonbParseState **state, JsonbIteratorToken token, char *text)
{
	JsonbValue value = {.type = jbvString};

	value.val.string.val = text;
	value.val.string.len = strlen(text);
	pushJsonbValue(state, token, &value);
}

/* What "{0}", "{page}" and "{seen}" stand for; NULL: a cursor is missing. */
static Jsonb *
next_values(const Spec *spec, Jsonb *before, int number, int64 seen)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < spec->ncursors; i++)
	{
		char *cursor = path_text(spec->cursors[i], before);

		if (cursor == NULL || strlen(cursor) > LONGEST_CURSOR)
			return NULL;
		push_string(&state, WJB_KEY, psprintf("%d", i));
		push_string(&state, WJB_VALUE, cursor);
	}
	push_string(&state, WJB_KEY, "page");
	push_string(&state, WJB_VALUE, psprintf("%d", number));
	push_string(&state, WJB_KEY, "seen");
	push_string(&state, WJB_VALUE, psprintf(INT64_FORMAT, seen));
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

char *
profile_next_page(const Spec *spec, const char *first_url, Jsonb *before, int number,
				  int64 seen)
{
	Scope          scope = {.args = next_values(spec, before, number, seen)};
	StringInfoData url;

	if (scope.args == NULL)
		return NULL;
	initStringInfo(&url);
	appendStringInfo(&url, "%s%c", first_url, strchr(first_url, '?') ? '&' : '?');
	template_form(&url, spec->lookup_next, &scope);
	return url.data;
}

/* ---------------------------------------------------------------- people */

/* LENGTH:BYTES, so that no two requests are written alike. */
static void
digest_part(StringInfo out, const char *bytes, size_t len)
{
	if (bytes == NULL)
	{
		appendStringInfoString(out, "-,");
		return;
	}
	appendStringInfo(out, "%zu:", len);
	appendBinaryStringInfo(out, bytes, (int) len);
}

static void
digest_text(StringInfo out, const char *text)
{
	digest_part(out, text, text ? strlen(text) : 0);
}

char *
profile_digest(const Frozen *frozen)
{
	StringInfoData all;
	uint8          digest[CANON_DIGEST_LEN];

	initStringInfo(&all);
	digest_text(&all, frozen->method);
	digest_text(&all, frozen->url);
	digest_text(&all, frozen->key);
	digest_part(&all, frozen->body, frozen->body_len);
	for (int i = 0; i < frozen->nheaders; i++)
		digest_text(&all, frozen->headers[i]);
	canon_sha256(all.data, all.len, digest);
	return canon_hex(digest, CANON_DIGEST_LEN);
}

/* Has the placeholder something to stand for? */
static bool
has_value(const char *name, const Scope *scope)
{
	JsonbValue value;

	if (strcmp(name, "external_id") == 0)
		return scope->external_id != NULL;
	if (strcmp(name, "op_id") == 0 || strcmp(name, "marker") == 0)
		return true;
	return scope->args != NULL && json_member(&scope->args->root, name, &value) &&
		   value.type != jbvNull;
}

char *
profile_console(const Spec *spec, const Subject *subject)
{
	Scope scope = scope_of(subject);
	JsonbValue template = {.type = jbvString};
	ListCell *cell;

	if (spec->console == NULL)
		return NULL;
	template.val.string.val = spec->console;
	template.val.string.len = strlen(spec->console);
	foreach (cell, template_names(&template))
	{
		if (!has_value(lfirst(cell), &scope))
			return NULL;
	}
	return template_text(spec->console, &scope, ESCAPE_PATH);
}

/* --------------------------------------------------------------- secrets */

static char *
base64(const char *text)
{
	int   len = strlen(text);
	int   room = pg_b64_enc_len(len);
	char *out = palloc(room + 1);
	int   n = pg_b64_encode((const void *) text, len, out, room);

	if (n < 0)
		elog(ERROR, "a secret could not be encoded");
	out[n] = '\0';
	return out;
}

char *
profile_auth_header(const Spec *spec, const char *secret_dir)
{
	char *secret;

	if (spec->auth == AUTH_NONE)
		return NULL;
	if (spec->secret == NULL)
		ereport(ERROR, errcode(OPL_ERR_SECRET), errmsg("the provider has no secret"),
				errhint("Give op_provider_add() a secret, like 'file:NAME'."));
	secret = secret_read(spec->secret, secret_dir);
	switch (spec->auth)
	{
		case AUTH_BASIC:
			if (strchr(secret, ':') == NULL)
				ereport(ERROR, errcode(OPL_ERR_SECRET),
						errmsg("secret \"%s\" is not \"user:password\"", spec->secret),
						errdetail("The provider's auth.scheme is \"basic\"."));
			return psprintf("Authorization: Basic %s", base64(secret));
		case AUTH_HEADER:
			return psprintf("%s: %s", spec->auth_header, secret);
		default:
			return psprintf("Authorization: Bearer %s", secret);
	}
}
