/*
 * spec.c - the table of the fields of a spec, and what they are when it is silent.
 *
 * Invariants:
 *
 *  1. Every field that a spec may have is one row of spec_fields. A field of a
 *     later feature is one, too, and is refused: what is accepted has an effect.
 *  2. What is not said is the cautious thing: a key that is not known to be
 *     remembered is never relied on, an error not known to be kept is not kept.
 *  3. Each field by itself is good here; what fields mean together is profile.c's.
 */
#include "postgres.h"

#include "spec/spec.h"

#include "spec/fields.h"
#include "spec/redact.h"
#include "base/jsonpath.h"
#include "spec/secret.h"
#include "base/tree.h"
#include "utils/numeric.h"
#include "spec/wire.h"

#define HOUR (60 * OPL_MINUTE)
#define DAY (24 * HOUR)
#define MEGABYTE (1024 * 1024)

#define PROVIDER SPEC_PROVIDER
#define REQUIRED FIELD_REQUIRED

/* A spec under construction. */
typedef struct Draft
{
	Spec        spec;
	JsonbValue *form;
	JsonbValue *json;
} Draft;

/* Names in the order of their enums. */
static const char *const effects[] = {"create", "set", NULL};
static const char *const grades[] = {"strong", "eventual", NULL};
static const char *const schemes[] = {"none", "bearer", "basic", "header", NULL};
static const char *const places[] = {"none", "header", "body", NULL};
static const char *const formats[] = {"raw", "quoted", "uuid", "sha256", NULL};
static const char *const executors[] = {"worker", "client", NULL};
static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", NULL};
static const char *const arg_types[] = {"text",   "integer", "number", "boolean",
										"object", "array",   "any",    NULL};
static const char *const stores[] = {
#define X(id, name) name,
	OPL_STORES(X) NULL
#undef X
};

/* What a rule may make of an answer: what proves itself otherwise is missing. */
static const char *const rule_verdicts[] = {
	"not_processed", "confirmed", "accepted",     "rejected", "blocked", "in_progress",
	"already_done",  "mismatch",  "stored_error", "unknown",  NULL};

/* ------------------------------------------- readers for this table alone */

static void
read_word(const Place *place, const JsonbValue *value)
{
	Field chosen = *place->field;
	Place choice = *place;
	int   n = 0;

	chosen.offset = 0;
	choice.field = &chosen;
	choice.base = &n;
	read_choice(&choice, value);
	*(const char **) field_target(place) = ((const char *const *) chosen.extra)[n];
}

static void
read_verdict(const Place *place, const JsonbValue *value)
{
	char *name;

	read_word(place, value); /* one of rule_verdicts */
	name = field_text(place, value);
	(void) opl_verdict_parse(name, (OplVerdict *) field_target(place));
}

static void
read_base_url(const Place *place, const JsonbValue *value)
{
	char       *url = field_text(place, value);
	const char *fault = wire_base_url_fault(url);
	size_t      len = strlen(url);

	if (fault != NULL)
		field_fault(place, fault, NULL,
					"It is like \"https://api.example.com\" or "
					"\"https://api.example.com:8443/v2\".");
	while (len > 0 && url[len - 1] == '/')
		url[--len] = '\0';
	*(char **) field_target(place) = url;
}

static void
read_url_path(const Place *place, const JsonbValue *value)
{
	char       *path = field_text(place, value);
	const char *fault = wire_path_fault(path);

	if (fault != NULL)
		field_fault(place, fault, NULL,
					"It stands behind base_url, like \"/v1/refunds\"; what comes "
					"behind a \"?\" is \"query\".");
	*(char **) field_target(place) = path;
}

static void
read_secret(const Place *place, const JsonbValue *value)
{
	char       *reference = field_text(place, value);
	const char *fault = secret_fault(reference);

	if (fault != NULL)
		field_fault(
			place, fault, "A secret itself is never kept in a table.",
			"Put it into a file in op_ledger.secret_dir and write \"file:NAME\".");
	*(char **) field_target(place) = reference;
}

/* A link for people; what else a browser would do with it is not wanted. */
static void
read_console(const Place *place, const JsonbValue *value)
{
	char *url = field_text(place, value);

	if (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0)
		field_fault(
			place, "must begin with \"https://\"", NULL,
			"It is like \"https://dashboard.example.com/refunds/{external_id}\".");
	*(char **) field_target(place) = url;
}

/* Steps to a place alone: what a filter finds has no place to hide. */
static void
read_redact(const Place *place, const JsonbValue *value)
{
	read_paths(place, value);
	for (int i = 0; i < JsonContainerSize(value->val.binary.data); i++)
	{
		Place       one = *place;
		JsonbValue *text = getIthJsonbValueFromContainer(value->val.binary.data, i);

		one.path = psprintf("%s[%d]", place->path, i);
		if (redact_parse(field_text(&one, text)) == NULL)
			field_fault(&one, "must be steps to a place alone", NULL,
						"Write it like \"$.card.number\", \"$.items[*].secret\" or "
						"\"$.**.token\".");
	}
}

/* "header:Idempotent-Replayed" */
static void
read_replayed(const Place *place, const JsonbValue *value)
{
	char *text = field_text(place, value);

	if (strncmp(text, "header:", 7) != 0 || wire_name_fault(text + 7) != NULL)
		field_fault(place, "must be \"header:NAME\"", NULL,
					"Name the header that is \"true\" on a replayed answer.");
	for (char *p = text; *p != '\0'; p++)
		*p = pg_ascii_tolower((unsigned char) *p);
	*(char **) field_target(place) = text + 7;
}

static void
read_headers(const Place *place, const JsonbValue *value)
{
	JsonbIterator *it;
	JsonbValue     v;
	int            token;

	read_object(place, value);
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		Place       header = *place;
		char       *name;
		const char *fault;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(v.val.string.val, v.val.string.len);
		header.path = psprintf("%s.%s", place->path, name);
		(void) JsonbIteratorNext(&it, &v, true);
		fault = wire_name_fault(name);
		if (fault == NULL && v.type != jbvNull)
			fault = wire_value_fault(field_text(&header, &v));
		if (fault != NULL)
			field_fault(&header, fault, NULL, NULL);
		if (wire_header_taken(name) != NULL)
			field_fault(&header, "is not for a spec to set", wire_header_taken(name),
						NULL);
	}
}

/* "header:webhook-timestamp", or "item:t=" in the signature's own header */
static void
read_source(const Place *place, const JsonbValue *value)
{
	char *text = field_text(place, value);
	bool  header = strncmp(text, "header:", 7) == 0 && wire_name_fault(text + 7) == NULL;
	bool  item = strncmp(text, "item:", 5) == 0 && text[5] != '\0';

	if (!header && !item)
		field_fault(place, "must be \"header:NAME\" or \"item:PREFIX\"", NULL,
					"An item stands in the header of the signature, like \"item:t=\".");
	*(char **) field_target(place) = text;
}

/* "$.id", or "header:X-Delivery" */
static void
read_event_id(const Place *place, const JsonbValue *value)
{
	SpecWebhook *webhook = &((Draft *) place->base)->spec.webhook;
	char        *text = field_text(place, value);
	Field        field = {.path = place->field->path};
	Place        path = {place->reading, &field, place->path, &webhook->id};

	if (*text == '$')
		read_path(&path, value);
	else if (strncmp(text, "header:", 7) == 0 && wire_name_fault(text + 7) == NULL)
		webhook->signature.id = text;
	else
		field_fault(place, "must be a jsonpath or \"header:NAME\"", NULL, NULL);
}

/* "$.id", "header:Location" or "header:Location[last]" */
static void
read_one_id(const Place *place, const JsonbValue *value)
{
	static const char last[] = "[last]";
	SpecObject       *object = &((Draft *) place->base)->spec.object;
	char             *text = field_text(place, value);
	size_t            len = strlen(text);
	Field             field = {.path = place->field->path};
	Place             path = {place->reading, &field, place->path, &object->id};

	if (strncmp(text, "header:", 7) != 0)
	{
		if (object->id != NULL)
			field_fault(place, "is a second jsonpath", NULL,
						"Beside one jsonpath there may be one header.");
		read_path(&path, value);
		return;
	}
	if (object->id_header != NULL)
		field_fault(place, "is a second header", NULL,
					"Beside one jsonpath there may be one header.");
	object->id_last = len > strlen(last) && strcmp(text + len - strlen(last), last) == 0;
	if (object->id_last)
		text[len - strlen(last)] = '\0';
	object->id_header = text + strlen("header:");
	if (wire_name_fault(object->id_header) != NULL)
		field_fault(place, "must be \"header:NAME\" or \"header:NAME[last]\"", NULL,
					"[last] takes the last segment of the path that the header has.");
}

/* One of them, or both: what the object has comes first. */
static void
read_object_id(const Place *place, const JsonbValue *value)
{
	if (!json_is_array(value))
	{
		read_one_id(place, value);
		return;
	}
	if (JsonContainerSize(value->val.binary.data) == 0)
		field_fault(place, "must not be empty", NULL, NULL);
	for (int i = 0; i < JsonContainerSize(value->val.binary.data); i++)
	{
		Place one = *place;

		one.path = psprintf("%s[%d]", place->path, i);
		read_one_id(&one, getIthJsonbValueFromContainer(value->val.binary.data, i));
	}
}

/* What is signed: placeholders of known names, and text. */
static void
read_payload(const Place *place, const JsonbValue *value)
{
	static const char *const names[] = {"{timestamp}", "{id}", "{url}", "{body}"};
	char                    *text = field_text(place, value);

	for (const char *p = strchr(text, '{'); p != NULL; p = strchr(p + 1, '{'))
	{
		bool known = false;

		for (int i = 0; i < lengthof(names); i++)
			known = known || strncmp(p, names[i], strlen(names[i])) == 0;
		if (!known)
			field_fault(place, "has a placeholder that stands for nothing", NULL,
						"There are {timestamp}, {id}, {url} and {body}.");
	}
	*(char **) field_target(place) = text;
}

static void
read_items(const Place *place, const JsonbValue *value)
{
	Spec *spec = &((Draft *) place->base)->spec;

	read_path(place, value);
	spec->lookup_list = scan_path_list(field_text(place, value));
	if (spec->lookup_list == NULL)
		field_fault(place, "must name the elements of a list",
					"Otherwise an answer without the list would look like an empty one.",
					"Write [*] behind the list, like \"$.data[*]\".");
}

static void
push_text(JsonbParseState **state, JsonbIteratorToken token, const char *text)
{
	JsonbValue value = {.type = jbvString};

	value.val.string.val = pstrdup(text);
	value.val.string.len = strlen(text);
	pushJsonbValue(state, token, &value);
}

/* One parameter of the next page: a cursor ("$.next") becomes a placeholder. */
static char *
read_next_value(const Place *place, const JsonbValue *value)
{
	Spec     *spec = &((Draft *) place->base)->spec;
	char     *text = field_text(place, value);
	JsonPath *path = NULL;
	Field     field = {.path = place->field->path};
	Place     cursor = {place->reading, &field, place->path, &path};

	if (*text != '$')
		return text;
	read_path(&cursor, value);
	spec->cursors[spec->ncursors] = path;
	return psprintf("{%d}", spec->ncursors++);
}

static void
read_next_query(const Place *place, const JsonbValue *value)
{
	Spec            *spec = &((Draft *) place->base)->spec;
	JsonbParseState *state = NULL;
	JsonbIterator   *it;
	JsonbValue       v;
	int              token;

	read_object(place, value);
	spec->cursors =
		palloc(sizeof(JsonPath *) * Max(JsonContainerSize(value->val.binary.data), 1));
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		Place parameter = *place;
		char *name;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		if (v.type == jbvNull)
			continue;
		parameter.path = psprintf("%s.%s", place->path, name);
		push_text(&state, WJB_KEY, name);
		push_text(&state, WJB_VALUE, read_next_value(&parameter, &v));
	}
	spec->lookup_next = pushJsonbValue(&state, WJB_END_OBJECT, NULL);
}

static void
read_status(const Place *place, const JsonbValue *value)
{
	SpecRule *rule = place->base;
	int       n = json_is_array(value) ? JsonContainerSize(value->val.binary.data) : 1;
	int       status = 0;
	Field     number = {.path = place->field->path, .min = 100, .max = 599};
	Place     one = {place->reading, &number, place->path, &status};

	rule->status = palloc0(sizeof(int) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		read_integer(&one, json_is_array(value)
							   ? getIthJsonbValueFromContainer(value->val.binary.data, i)
							   : value);
		rule->status[rule->nstatus++] = status;
	}
}

static void
read_bound(const Place *place, const JsonbValue *value)
{
	SpecArg *arg = place->base;
	Numeric  bound;

	if (value->type != jbvNumeric)
		field_fault(place, "must be a number", psprintf("It is %s.", json_kind(value)),
					NULL);
	bound = value->val.numeric;
	if (place->field->offset == offsetof(SpecArg, min))
		arg->has_min = true;
	else
		arg->has_max = true;
	*(Numeric *) field_target(place) = bound;
}

static void
read_one_of(const Place *place, const JsonbValue *value)
{
	SpecArg *arg = place->base;

	if (!json_is_array(value) || JsonContainerSize(value->val.binary.data) == 0)
		field_fault(place, "must be an array of values", NULL, NULL);
	arg->one_of = JsonbValueToJsonb(unconstify(JsonbValue *, value));
}

/* -------------------------------------------------------------- the table */

#define SPEC(member) offsetof(Draft, spec.member)
#define PROMISE(member) offsetof(Draft, spec.promises.member)
#define HOOK(member) offsetof(Draft, spec.webhook.member)
#define SIGN(member) offsetof(Draft, spec.webhook.signature.member)
#define DRAFT(member) offsetof(Draft, member)
#define ARG(member) offsetof(SpecArg, member)
#define RULE(member) offsetof(SpecRule, member)
#define NOWHERE FIELD_NOWHERE

static const FieldMany many_args = {sizeof(SpecArg), SPEC(args), SPEC(nargs), ARG(name)};
static const FieldMany many_rules = {sizeof(SpecRule), SPEC(rules), SPEC(nrules), 0};

/* What a field without an effect is told to do instead. */
static const char no_rate[] = "\"concurrency\" limits how many requests are out at once.";
static const char no_undo[] =
	"Nothing is undone by machine: submit the action that undoes "
	"it, under an op id of its own.";
static const char no_messages[] =
	"Make words of your own from state, effect and next_action.";

/* clang-format off */
static const Field spec_fields[] = {
	/* path                 how it is read   where      kept in                   from, to, names */
	{"source",              read_any,        0,         NOWHERE,                  0, 0, NULL},
	{"effect",              read_choice,     0,         SPEC(effect),             0, 0, effects},

	{"base_url",            read_base_url,   PROVIDER | REQUIRED, SPEC(base_url), 0, 0, NULL},
	{"secret",              read_secret,     PROVIDER,  SPEC(secret),             0, 0, NULL},
	{"account",             read_text,       SPEC_ROW,  SPEC(account),            0, 0, NULL},
	{"auth",                read_members,    0,         NOWHERE,                  0, 0, NULL},
	{"auth.scheme",         read_choice,     0,         SPEC(auth),               0, 0, schemes},
	{"auth.name",           read_name,       0,         SPEC(auth_header),        0, 0, NULL},
	{"tls",                 read_members,    PROVIDER,  NOWHERE,                  0, 0, NULL},
	{"tls.ca",              read_text,       PROVIDER,  SPEC(ca_file),            0, 0, NULL},
	{"proxy",               read_text,       PROVIDER,  SPEC(proxy),              0, 0, NULL},
	{"namespace",           read_text,       PROVIDER,  SPEC(name_space),         0, 0, NULL},
	{"concurrency",         read_integer,    PROVIDER,  SPEC(concurrency),        1, 1000, NULL},
	{"rate",                read_later,      PROVIDER,  NOWHERE,                  0, 0, no_rate},
	{"webhook",             read_members,    PROVIDER,  NOWHERE,                  0, 0, NULL},
	{"webhook.scheme",      read_choice,     REQUIRED,  SIGN(scheme),             0, 0, signature_schemes},
	{"webhook.secret",      read_secret,     0,         HOOK(secret),             0, 0, NULL},
	{"webhook.tolerance",   read_duration,   0,         SIGN(tolerance),          OPL_SECOND, DAY, NULL},
	{"webhook.header",      read_name,       0,         SIGN(header),             0, 0, NULL},
	{"webhook.separator",   read_text,       0,         SIGN(separator),          0, 0, NULL},
	{"webhook.prefix",      read_text,       0,         SIGN(prefix),             0, 0, NULL},
	{"webhook.timestamp",   read_source,     0,         SIGN(timestamp),          0, 0, NULL},
	{"webhook.payload",     read_payload,    0,         SIGN(payload),            0, 0, NULL},
	{"webhook.hash",        read_choice,     0,         SIGN(hash),               0, 0, signature_hashes},
	{"webhook.encoding",    read_choice,     0,         SIGN(encoding),           0, 0, signature_encodings},
	{"webhook.key",         read_choice,     0,         SIGN(key),                0, 0, signature_keys},
	{"webhook.url",         read_text,       0,         SIGN(url),                0, 0, NULL},
	{"webhook.id",          read_event_id,   0,         NOWHERE,                  0, 0, NULL},
	{"webhook.object",      read_path,       0,         HOOK(object),             0, 0, NULL},
	{"webhook.type",        read_path,       0,         HOOK(type),               0, 0, NULL},
	{"webhook.if",          read_condition,  0,         HOOK(condition),          0, 0, NULL},
	{"response_limit",      read_integer,    0,         SPEC(response_limit),     1024, 64 * MEGABYTE, NULL},

	{"args",                read_map,        0,         NOWHERE,                  0, 0, &many_args},
	{"args.*.type",         read_word,       REQUIRED,  ARG(type),                0, 0, arg_types},
	{"args.*.optional",     read_boolean,    0,         ARG(optional),            0, 0, NULL},
	{"args.*.min",          read_bound,      0,         ARG(min),                 0, 0, NULL},
	{"args.*.max",          read_bound,      0,         ARG(max),                 0, 0, NULL},
	{"args.*.one_of",       read_one_of,     0,         NOWHERE,                  0, 0, NULL},
	{"args.*.description",  read_text,       0,         NOWHERE,                  0, 0, NULL},

	{"headers",             read_headers,    0,         SPEC(headers),            0, 0, NULL},
	{"request",             read_members,    REQUIRED,  NOWHERE,                  0, 0, NULL},
	{"request.method",      read_word,       0,         SPEC(method),             0, 0, methods},
	{"request.path",        read_url_path,   REQUIRED,  SPEC(path),               0, 0, NULL},
	{"request.query",       read_object,     0,         SPEC(query),              0, 0, NULL},
	{"request.form",        read_object,     0,         DRAFT(form),              0, 0, NULL},
	{"request.json",        read_any,        0,         DRAFT(json),              0, 0, NULL},

	{"key",                 read_members,    0,         NOWHERE,                  0, 0, NULL},
	{"key.in",              read_choice,     0,         SPEC(key_place),          0, 0, places},
	{"key.name",            read_text,       0,         SPEC(key_name),           0, 0, NULL},
	{"key.format",          read_choice,     0,         SPEC(key_format),         0, 0, formats},
	{"key.max",             read_integer,    0,         SPEC(key_max),            16, 1000, NULL},
	{"key.ttl",             read_duration,   0,         PROMISE(ttl),             0, 0, NULL},
	{"key.margin",          read_duration,   0,         PROMISE(margin),          10000, HOUR, NULL},
	{"key.stores",          read_choice,     0,         PROMISE(stores),          0, 0, stores},
	{"key.guards",          read_boolean,    0,         PROMISE(guards),          0, 0, NULL},
	{"key.replayed",        read_replayed,   0,         SPEC(replayed),           0, 0, NULL},

	{"object",              read_members,    0,         NOWHERE,                  0, 0, NULL},
	{"object.is",           read_condition,  0,         SPEC(object.is),          0, 0, NULL},
	{"object.id",           read_object_id,  REQUIRED,  NOWHERE,                  0, 0, NULL},
	{"object.marker",       read_path,       0,         SPEC(object.marker),      0, 0, NULL},
	{"object.pending",      read_condition,  0,         SPEC(object.pending),     0, 0, NULL},
	{"object.failed",       read_condition,  0,         SPEC(object.failed),      0, 0, NULL},
	{"success",             read_members,    0,         NOWHERE,                  0, 0, NULL},
	{"success.object",      read_path,       0,         SPEC(success_object),     0, 0, NULL},
	{"success.if",          read_condition,  0,         SPEC(success_if),         0, 0, NULL},

	{"rules",               read_list,       0,         NOWHERE,                  0, 0, &many_rules},
	{"rules[].if",          read_members,    REQUIRED,  NOWHERE,                  0, 0, NULL},
	{"rules[].if.status",   read_status,     0,         NOWHERE,                  0, 0, NULL},
	{"rules[].if.body",     read_condition,  0,         RULE(body),               0, 0, NULL},
	{"rules[].if.header",   read_name,       0,         RULE(header),             0, 0, NULL},
	{"rules[].if.value",    read_text,       0,         RULE(value),              0, 0, NULL},
	{"rules[].then",        read_verdict,    REQUIRED,  RULE(then),               0, 0, rule_verdicts},
	{"rules[].reason",      read_text,       0,         RULE(reason),             0, 0, NULL},
	{"rules[].keyed",       read_boolean,    0,         RULE(keyed),              0, 0, NULL},
	{"rules[].source",      read_any,        0,         NOWHERE,                  0, 0, NULL},

	{"lookup",              read_members,    0,         NOWHERE,                  0, 0, NULL},
	{"lookup.path",         read_url_path,   REQUIRED,  SPEC(lookup_path),        0, 0, NULL},
	{"lookup.query",        read_object,     0,         SPEC(lookup_query),       0, 0, NULL},
	{"lookup.items",        read_items,      0,         SPEC(lookup_items),       0, 0, NULL},
	{"lookup.more",         read_condition,  0,         SPEC(lookup_more),        0, 0, NULL},
	{"lookup.first",        read_boolean,    0,         SPEC(lookup_first),       0, 0, NULL},
	{"lookup.grade",        read_choice,     0,         SPEC(grade),              0, 0, grades},
	{"lookup.lag",          read_duration,   0,         PROMISE(lag),             0, 0, NULL},
	{"lookup.give_up",      read_duration,   0,         PROMISE(give_up),         1, 0, NULL},
	{"lookup.next",         read_members,    0,         NOWHERE,                  0, 0, NULL},
	{"lookup.next.query",   read_next_query, REQUIRED,  NOWHERE,                  0, 0, NULL},
	{"lookup.pages",        read_integer,    0,         SPEC(lookup_pages),       1, 1000, NULL},

	{"poll",                read_members,    0,         NOWHERE,                  0, 0, NULL},
	{"poll.path",           read_url_path,   REQUIRED,  SPEC(poll_path),          0, 0, NULL},
	{"poll.query",          read_object,     0,         SPEC(poll_query),         0, 0, NULL},

	{"timeout",             read_members,    0,         NOWHERE,                  0, 0, NULL},
	{"timeout.connect",     read_duration,   0,         SPEC(connect_timeout),    1000, HOUR, NULL},
	{"timeout.total",       read_duration,   0,         PROMISE(timeout),         1000, HOUR, NULL},
	{"timeout.flight",      read_duration,   0,         PROMISE(flight),          1000, 0, NULL},

	{"retry",               read_members,    0,         NOWHERE,                  0, 0, NULL},
	{"retry.attempts",      read_integer,    0,         PROMISE(attempts),        1, 1000, NULL},
	{"retry.patience",      read_duration,   0,         PROMISE(patience),        1, 0, NULL},
	{"retry.initial",       read_duration,   0,         PROMISE(initial),         1000, 0, NULL},
	{"retry.base",          read_number,     0,         PROMISE(base),            1, 100, NULL},
	{"retry.max",           read_duration,   0,         PROMISE(max),             1000, 0, NULL},
	{"retry.jitter",        read_number,     0,         PROMISE(jitter),          0, 1, NULL},

	{"undo",                read_later,      0,         NOWHERE,                  0, 0, no_undo},
	{"redact",              read_redact,     0,         NOWHERE,                  0, 0, NULL},
	{"approval",            read_boolean,    0,         SPEC(approval),           0, 0, NULL},
	{"executor",            read_choice,     0,         SPEC(executor),                 0, 0, executors},
	{"console",             read_console,    0,         SPEC(console),            0, 0, NULL},
	{"messages",            read_later,      0,         NOWHERE,                  0, 0, no_messages},
	{NULL, NULL, 0, 0, 0, 0, NULL}};
/* clang-format on */

/* Where a spec is silent. */
static void
set_defaults(Draft *draft)
{
	Spec *spec = &draft->spec;

	spec->concurrency = 64;
	spec->response_limit = MEGABYTE;
	spec->method = "POST";
	spec->key_max = 255;
	spec->lookup_pages = 10;
	spec->webhook.signature =
		(Signature){.hash = -1, .encoding = -1, .key = -1, .tolerance = 5 * OPL_MINUTE};
	spec->connect_timeout = 5 * OPL_SECOND;
	spec->promises = (OplPromises){.ttl = 0,
								   .stores = OPL_STORES_NOTHING,
								   .margin = 5 * OPL_SECOND,
								   .timeout = 30 * OPL_SECOND,
								   .attempts = 3,
								   .patience = HOUR,
								   .give_up = 3 * DAY,
								   .initial = 2 * OPL_SECOND,
								   .base = 2,
								   .max = OPL_MINUTE,
								   .jitter = 1};
}

bool
spec_says(const Spec *spec, const char *field, const char *member)
{
	JsonbValue value;

	if (!json_member(&spec->json->root, field, &value) || value.type == jbvNull)
		return false;
	if (member == NULL)
		return true;
	return json_is_object(&value) && json_member(value.val.binary.data, member, &value) &&
		   value.type != jbvNull;
}

/* ----------------------------------------------------------------- place */

/* Whose account, by which way, and what is read of a lookup. Not how long things
 * take, nor base_url and namespace, which are frozen with each request. */
static const struct
{
	const char *field;
	const char *member; /* NULL: all of it */
} place_fields[] = {
	{"proxy", NULL},    {"tls", NULL},       {"object", NULL},
	{"lookup", "path"}, {"lookup", "query"}, {"lookup", "items"},
	{"lookup", "more"}, {"lookup", "next"},  {"success", "object"},
};

static void
append_written(StringInfo out, Jsonb *merged, const char *field, const char *member)
{
	JsonbValue value;
	bool       there = json_member(&merged->root, field, &value);

	if (there && member != NULL)
		there =
			json_is_object(&value) && json_member(value.val.binary.data, member, &value);
	if (there && value.type != jbvNull)
		canon_json(out, JsonbValueToJsonb(&value));
	appendStringInfoChar(out, '\n');
}

OplPlace
spec_place(Jsonb *merged)
{
	StringInfoData all;
	JsonbValue     value;
	uint8          digest[CANON_DIGEST_LEN];
	OplPlace       place;

	initStringInfo(&all);
	append_written(&all, merged,
				   json_member(&merged->root, "account", &value) ? "account" : "secret",
				   NULL);
	for (int i = 0; i < lengthof(place_fields); i++)
		append_written(&all, merged, place_fields[i].field, place_fields[i].member);
	canon_sha256(all.data, all.len, digest);
	memcpy(&place, digest, sizeof(place));
	return place == OPL_NOWHERE || place == OPL_ANYWHERE ? 1 : place;
}

/* --------------------------------------------------------------- reading */

/* What follows from the fields that were read. */
static void
derive(Draft *draft)
{
	Spec        *spec = &draft->spec;
	OplPromises *p = &spec->promises;

	p->client = spec->executor == EXECUTOR_CLIENT;
	if (spec_says(spec, "key", NULL) && !spec_says(spec, "key", "in"))
		spec->key_place = KEY_IN_HEADER;
	if (spec->key_place == KEY_IN_HEADER && spec->key_name == NULL)
		spec->key_name = "Idempotency-Key";
	spec->body_kind = draft->form ? BODY_FORM : draft->json ? BODY_JSON : BODY_NONE;
	spec->body = draft->form ? draft->form : draft->json;
	spec->has_object = spec->object.id != NULL || spec->object.id_header != NULL;
	signature_complete(&spec->webhook.signature);
	p->recipe = spec_says(spec, "lookup", NULL);
	p->place = spec_place(spec->json);
	spec->lookup_one = p->recipe && spec->lookup_items == NULL;
	spec->next_by_number = spec->lookup_next != NULL && spec->ncursors == 0;
	if (p->flight == 0)
		p->flight = Max(p->timeout, OPL_MINUTE);
	if (!spec_says(spec, "timeout", "connect"))
		spec->connect_timeout = Min(spec->connect_timeout, p->timeout);
	if (!spec_says(spec, "key", "guards"))
		p->guards =
			p->ttl > 0 && (p->stores == OPL_STORES_ALL || p->stores == OPL_STORES_STATE);
	for (int i = 0; i < spec->nrules; i++)
	{
		for (char *c = spec->rules[i].header; c != NULL && *c != '\0'; c++)
			*c = pg_ascii_tolower((unsigned char) *c);
	}
}

Spec *
spec_read(const char *what, Jsonb *json, int level, bool whole)
{
	Reading reading = {what, spec_fields, level, whole};
	Draft  *draft = palloc0(sizeof(Draft));

	draft->spec.json = (Jsonb *) PG_DETOAST_DATUM_COPY(PointerGetDatum(json));
	set_defaults(draft);
	fields_read(&reading, draft->spec.json, draft);
	derive(draft);
	return &draft->spec;
}
