/*
 * profile.c - a spec as a whole: merged, checked, and what it costs its user.
 *
 * Invariants:
 *
 *  1. A spec that parses can be used: its placeholders have a value, its lookup
 *     can tell our object from others, its promises do not contradict each other.
 *  2. What is weak but honest is accepted, and its price said in a notice.
 */
#include "postgres.h"

#include "spec/profile.h"

#include "base/errors.h"
#include "spec/fields.h"
#include "spec/template.h"
#include "base/tree.h"
#include "spec/wire.h"

/* ---------------------------------------------------------- wholeness */

static _Noreturn void
refuse(const char *what, const char *path, const char *must, const char *detail,
	   const char *hint)
{
	ereport(ERROR, errcode(OPL_ERR_SPEC),
			errmsg("field \"%s\" in %s %s", path, what, must),
			detail ? errdetail("%s", detail) : 0, hint ? errhint("%s", hint) : 0);
}

static bool
is_reserved(const char *name)
{
	return strcmp(name, "op_id") == 0 || strcmp(name, "marker") == 0 ||
		   strcmp(name, "external_id") == 0 || strcmp(name, "key") == 0;
}

static void
check_arg_names(const Spec *spec, const char *what)
{
	for (int i = 0; i < spec->nargs; i++)
	{
		const SpecArg *arg = &spec->args[i];
		const char    *path = psprintf("args.%s", arg->name);

		if (is_reserved(arg->name))
			refuse(what, path, "has a name that placeholders use for something else",
				   "op_id, marker, external_id and key are not arguments.", NULL);
		if (*arg->name == '\0' || strpbrk(arg->name, "{}") != NULL)
			refuse(what, path, "has a name that no placeholder can name", NULL, NULL);
		if (strcmp(arg->type, "boolean") == 0 && (arg->has_min || arg->has_max))
			refuse(what, path, "has bounds without an effect",
				   "What is true or false is not more or less.",
				   "Leave \"min\" and \"max\" out.");
	}
}

static const SpecArg *
find_arg(const Spec *spec, const char *name)
{
	for (int i = 0; i < spec->nargs; i++)
	{
		if (strcmp(spec->args[i].name, name) == 0)
			return &spec->args[i];
	}
	return NULL;
}

static const char *
nearest_arg(const Spec *spec, const char *name)
{
	const char **names = palloc(sizeof(char *) * (spec->nargs + 4));
	int          n = 0;

	for (int i = 0; i < spec->nargs; i++)
		names[n++] = spec->args[i].name;
	names[n++] = "marker";
	names[n++] = "op_id";
	names[n++] = "external_id";
	names[n++] = "key";
	return nearest_name(name, names, n);
}

/* Can the name stand for something where it is used? */
static bool
is_known(const Spec *spec, const char *name, bool lookup)
{
	if (strcmp(name, "op_id") == 0 || strcmp(name, "marker") == 0)
		return true;
	if (strcmp(name, "external_id") == 0)
		return lookup;
	if (strcmp(name, "key") == 0)
		return !lookup && spec->key_place != KEY_IN_NONE;
	return find_arg(spec, name) != NULL;
}

static void
check_placeholders(const Spec *spec, const char *what, const char *path,
				   const JsonbValue *value, bool lookup)
{
	ListCell *cell;

	if (value == NULL)
		return;
	foreach (cell, template_names(value))
	{
		const char *name = lfirst(cell);
		const char *meant = is_reserved(name) ? NULL : nearest_arg(spec, name);

		if (!is_known(spec, name, lookup))
			ereport(
				ERROR, errcode(OPL_ERR_SPEC),
				errmsg("placeholder \"{%s}\" in field \"%s\" in %s stands for nothing",
					   name, path, what),
				meant ? errhint("Perhaps you meant \"{%s}\".", meant)
					  : errhint("Declare it in \"args\". Besides, there are {op_id} and "
								"{marker}, in a lookup {external_id}, and {key} where "
								"there is a key."));
	}
}

static JsonbValue
text_value(const char *text)
{
	JsonbValue value = {.type = jbvString};

	value.val.string.val = unconstify(char *, text);
	value.val.string.len = strlen(text);
	return value;
}

/* Where the external id may stand as well. */
static void
check_text_placeholders(const Spec *spec, const char *what, const char *path,
						const char *text)
{
	JsonbValue value;

	if (text == NULL)
		return;
	value = text_value(text);
	check_placeholders(spec, what, path, &value, true);
}

static void
check_all_placeholders(const Spec *spec, const char *what)
{
	const char *body = spec->body_kind == BODY_FORM ? "request.form" : "request.json";
	JsonbValue  path = text_value(spec->path);

	check_placeholders(spec, what, "request.path", &path, false);
	check_placeholders(spec, what, "request.query", spec->query, false);
	check_placeholders(spec, what, body, spec->body, false);
	check_placeholders(spec, what, "headers", spec->headers, false);
	check_text_placeholders(spec, what, "console", spec->console);
	check_text_placeholders(spec, what, "lookup.path", spec->lookup_path);
	check_placeholders(spec, what, "lookup.query", spec->lookup_query, true);
	check_text_placeholders(spec, what, "poll.path", spec->poll_path);
	check_placeholders(spec, what, "poll.query", spec->poll_query, true);
}

/* Does a placeholder in `value` have this name? */
static bool
has_name(const JsonbValue *value, const char *name)
{
	ListCell *cell;

	if (value == NULL)
		return false;
	foreach (cell, template_names(value))
	{
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	}
	return false;
}

static bool
sends_marker(const Spec *spec)
{
	JsonbValue path = text_value(spec->path);

	return has_name(&path, "marker") || has_name(spec->query, "marker") ||
		   has_name(spec->headers, "marker") || has_name(spec->body, "marker");
}

/* What a list shows is ours only by a marker that we wrote. */
static void
check_marker(const Spec *spec, const char *what)
{
	if (!spec->promises.recipe || spec->lookup_one)
		return;
	if (spec->object.marker == NULL)
		refuse(what, "lookup", "needs \"object.marker\"",
			   "In a list only our own marker tells our object from others.",
			   "Say where on the provider's object the marker stands, like "
			   "\"$.metadata.op_id\".");
	if (!sends_marker(spec))
		refuse(what, "request", "must have \"{marker}\" in it",
			   "The lookup finds the object by it; \"{op_id}\" alone cannot tell "
			   "generations apart.",
			   "Send it in a field that the provider gives back, such as metadata.");
}

/* A poll is about one object that is known. */
static void
check_poll(const Spec *spec, const char *what)
{
	JsonbValue path;

	if (spec->poll_path == NULL)
		return;
	path = text_value(spec->poll_path);
	if (!has_name(&path, "external_id") && !has_name(spec->poll_query, "external_id"))
		refuse(what, "poll", "must have \"{external_id}\" in its path or query",
			   "It asks for the one object that an answer named.", NULL);
	if (!spec->has_object)
		refuse(what, "poll", "needs \"object\"",
			   "Without it nothing can be read from what a poll brings.", NULL);
}

/* What stands in a list has no header of its own. */
static void
check_id(const Spec *spec, const char *what)
{
	if (spec->has_object && spec->object.id == NULL && spec->promises.recipe &&
		!spec->lookup_one)
		refuse(what, "object.id", "must be a jsonpath, too, where a lookup reads a list",
			   "A header tells the id of the one object that an answer is about.",
			   "Write both, like [\"$.id\", \"header:Location[last]\"].");
}

static void
check_webhook(const Spec *spec, const char *what)
{
	const char *fault = signature_fault(&spec->webhook.signature);
	const char *must;

	if (!spec_says(spec, "webhook", NULL) || fault == NULL)
		return;
	must = strchr(fault, ' ');
	refuse(what, psprintf("webhook.%.*s", (int) (must - fault), fault), must + 1, NULL,
		   "What a scheme signs by itself is in doc/providers.md; what differs, the spec "
		   "says.");
}

/* "{page}" or "{seen}", beside cursors. */
static void
check_next_name(const Spec *spec, const char *what, const char *name)
{
	char *end;

	if (strcmp(name, "page") == 0 || strcmp(name, "seen") == 0)
		return;
	if (strtol(name, &end, 10) < spec->ncursors && *end == '\0')
		return;
	refuse(what, "lookup.next.query", "has a placeholder that stands for nothing",
		   "There are {page}, the number of the page that is asked for, and {seen}, the "
		   "items on those before.",
		   "A cursor is a jsonpath into the page before, like \"$.next_cursor\".");
}

static void
check_next(const Spec *spec, const char *what)
{
	ListCell      *cell;
	JsonbIterator *it;
	JsonbValue     v;
	JsonbValue     twice;
	int            token;

	if (spec->lookup_next == NULL)
		return;
	if (spec->lookup_one)
		refuse(what, "lookup.next", "needs \"lookup.items\"", "One object has no pages.",
			   NULL);
	if (spec->next_by_number && spec->lookup_more == NULL)
		refuse(what, "lookup.next", "needs \"lookup.more\" where pages are counted",
			   "Nothing else says which page is the last.", NULL);
	foreach (cell, template_names(spec->lookup_next))
		check_next_name(spec, what, lfirst(cell));
	if (spec->lookup_query == NULL)
		return;
	it = JsonbIteratorInit(spec->lookup_query->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char *name;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(v.val.string.val, v.val.string.len);
		if (json_member(&JsonbValueToJsonb(spec->lookup_next)->root, name, &twice))
			refuse(what, psprintf("lookup.next.query.%s", name),
				   "is in \"lookup.query\" too",
				   "A parameter that the next page sets is not sent for the first.",
				   NULL);
	}
}

static void
check_rules(const Spec *spec, const char *what)
{
	for (int i = 0; i < spec->nrules; i++)
	{
		const SpecRule *rule = &spec->rules[i];

		if (rule->nstatus == 0 && rule->body == NULL && rule->header == NULL)
			refuse(what, psprintf("rules[%d].if", i), "must have a condition",
				   "A rule that is always true would hide all others.",
				   "Name a status, a body or a header.");
		if (rule->value != NULL && rule->header == NULL)
			refuse(what, psprintf("rules[%d].if.value", i), "needs \"header\" beside it",
				   NULL, NULL);
	}
}

/* A spec header that another part of the spec sends as well. */
static void
check_header_once(const Spec *spec, const char *what, const char *path, const char *name)
{
	JsonbIterator *it;
	JsonbValue     v;
	int            token;

	if (spec->headers == NULL)
		return;
	it = JsonbIteratorInit(spec->headers->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY && v.val.string.len == strlen(name) &&
			pg_strncasecmp(v.val.string.val, name, v.val.string.len) == 0)
			refuse(what, path,
				   psprintf("names the header \"%s\", which is in \"headers\" too", name),
				   NULL, NULL);
	}
}

static void
check_key(const Spec *spec, const char *what)
{
	if (spec->key_place == KEY_IN_HEADER)
	{
		const char *fault = wire_name_fault(spec->key_name);

		if (fault != NULL)
			refuse(what, "key.name", fault, NULL, NULL);
		if (wire_header_taken(spec->key_name) != NULL)
			refuse(what, "key.name", "must not be a header that is used otherwise", NULL,
				   NULL);
		check_header_once(spec, what, "key.name", spec->key_name);
	}
	if (spec->key_place == KEY_IN_BODY)
	{
		if (spec->key_name == NULL || *spec->key_name != '/' || spec->key_name[1] == '\0')
			refuse(what, "key.name", "must be a JSON pointer into the body", NULL,
				   "Write it like \"/idempotency_key\".");
		if (spec->body == NULL || !json_is_object(spec->body))
			refuse(what, "key.in", "needs a body to put the key in",
				   "\"request\" has neither a form nor a JSON object.", NULL);
	}
}

static void
check_auth(const Spec *spec, const char *what)
{
	if (spec->auth != AUTH_HEADER && spec->auth_header != NULL)
		refuse(what, "auth.name", "has no effect in this scheme",
			   "Only the scheme \"header\" has a header of its own.",
			   "Set the one that is inherited to null.");
	if (spec->auth != AUTH_HEADER)
		return;
	if (spec->auth_header == NULL)
		refuse(what, "auth.name", "is missing", "The scheme \"header\" needs a header.",
			   "Name it, like \"x-api-key\".");
	check_header_once(spec, what, "auth.name", spec->auth_header);
}

/* ---------------------------------------- promises that make no sense */

static OplMoment
reach_of(const OplPromises *p)
{
	return Max(p->flight, p->timeout);
}

static bool
sets(const Spec *s)
{
	return s->effect == EFFECT_SET;
}

static bool
two_bodies(const Spec *s)
{
	return spec_says(s, "request", "form") && spec_says(s, "request", "json");
}

static bool
remembers_no_key(const Spec *s)
{
	return s->key_place == KEY_IN_NONE && s->promises.ttl > 0;
}

static bool
stores_no_key(const Spec *s)
{
	return s->key_place == KEY_IN_NONE && s->promises.stores != OPL_STORES_NOTHING;
}

static bool
window_never_open(const Spec *s)
{
	const OplPromises *p = &s->promises;

	return p->ttl > 0 && p->ttl <= p->margin + reach_of(p);
}

static bool
guards_without_ttl(const Spec *s)
{
	return s->promises.guards && s->promises.ttl == 0;
}

static bool
guards_nothing(const Spec *s)
{
	return s->promises.guards && s->promises.stores == OPL_STORES_NOTHING;
}

static bool
uuid_cut(const Spec *s)
{
	return s->key_format == KEY_UUID && s->key_max < 36;
}

static bool
eventual_without_lag(const Spec *s)
{
	return s->grade == GRADE_EVENTUAL && s->promises.lag == 0;
}

static bool
backoff_upside_down(const Spec *s)
{
	return s->promises.max < s->promises.initial;
}

static bool
success_of_nothing(const Spec *s)
{
	return s->success_object != NULL && !s->has_object;
}

static bool
more_of_one(const Spec *s)
{
	return s->lookup_one && s->lookup_more != NULL;
}

static bool
pages_of_one(const Spec *s)
{
	return spec_says(s, "lookup", "pages") && s->lookup_next == NULL;
}

static bool
tolerance_without_time(const Spec *s)
{
	return spec_says(s, "webhook", "tolerance") && s->webhook.signature.timestamp == NULL;
}

static bool
url_unsigned(const Spec *s)
{
	return spec_says(s, "webhook", "url") &&
		   strstr(s->webhook.signature.payload, "{url}") == NULL;
}

static bool
connect_beyond_total(const Spec *s)
{
	return s->connect_timeout > s->promises.timeout && spec_says(s, "timeout", "connect");
}

static const struct
{
	bool (*found)(const Spec *spec);
	const char *path;
	const char *must;
	const char *detail;
	const char *hint;
} nonsense[] = {
	{sets, "effect", "cannot be \"set\" until there are lanes",
	 "Two settings of one value could overtake each other.",
	 "Use \"create\", if each request is one more thing."},
	{two_bodies, "request", "has both \"form\" and \"json\"", "A request has one body.",
	 "Set the one that is inherited to null."},
	{remembers_no_key, "key.ttl", "must be 0 without a key",
	 "A key that is not sent is not remembered.", "Set \"key.in\" and \"key.name\"."},
	{stores_no_key, "key.stores", "must be \"nothing\" without a key",
	 "Nothing is kept under a key that is not sent.", "Set \"key.in\" and \"key.name\"."},
	{guards_without_ttl, "key.guards", "needs \"key.ttl\"",
	 "A key guards only while it is remembered.",
	 "Say how long the provider remembers the key, like \"24 h\"."},
	{guards_nothing, "key.guards", "makes no sense where the key stores nothing",
	 "A key guards when what it stores stands in the way of a second effect.",
	 "Set \"key.stores\"."},
	{window_never_open, "key.ttl",
	 "must be longer than \"key.margin\" and the larger of \"timeout.flight\" and "
	 "\"timeout.total\" together",
	 "Otherwise no resend would surely arrive while the key is remembered.",
	 "Set it to \"0 s\" if nothing is to be resent, or shorten the timeouts."},
	{uuid_cut, "key.max", "must be at least 36 for a uuid", NULL, NULL},
	{eventual_without_lag, "lookup.lag", "is missing for an \"eventual\" lookup",
	 "Without it, absence would be believed at once.",
	 "Say how long an effect may stay invisible, like \"1 min\"."},
	{backoff_upside_down, "retry.max", "must not be less than \"retry.initial\"", NULL,
	 NULL},
	{connect_beyond_total, "timeout.connect", "must not be more than \"timeout.total\"",
	 NULL, NULL},
	{success_of_nothing, "success.object", "has no effect without \"object\"",
	 "Without it nothing is read from an answer.", "Say how an object is read."},
	{more_of_one, "lookup.more", "has no effect without \"lookup.items\"",
	 "One object has no pages.", "Set the one that is inherited to null."},
	{pages_of_one, "lookup.pages", "has no effect without \"lookup.next\"",
	 "One page is read where nothing says how the next is asked for.",
	 "Set \"lookup.next\"."},
	{tolerance_without_time, "webhook.tolerance", "has no effect without a timestamp",
	 "What is signed says nothing of when that was.",
	 "Set \"webhook.timestamp\", if the provider signs one."},
	{url_unsigned, "webhook.url", "has no effect where the address is not signed", NULL,
	 "Put {url} into \"webhook.payload\", if the provider signs it."},
};

static void
check_sense(const Spec *spec, const char *what)
{
	for (int i = 0; i < lengthof(nonsense); i++)
	{
		if (nonsense[i].found(spec))
			refuse(what, nonsense[i].path, nonsense[i].must, nonsense[i].detail,
				   nonsense[i].hint);
	}
}

/* ------------------------------------------- what is accepted, and its price */

static bool
never_resent(const Spec *s)
{
	return s->promises.ttl == 0;
}

static bool
resent_after_proof(const Spec *s)
{
	return s->promises.ttl > 0 && !s->promises.guards && s->promises.recipe;
}

static bool
unknown_to_person(const Spec *s)
{
	return !s->promises.recipe && !s->promises.guards;
}

static bool
believed_by_id(const Spec *s)
{
	return s->has_object && s->object.marker == NULL;
}

static bool
any_success(const Spec *s)
{
	return !s->has_object;
}

static bool
one_page(const Spec *s)
{
	return s->promises.recipe && !s->lookup_one && s->lookup_more == NULL &&
		   s->lookup_next == NULL;
}

static bool
more_unread(const Spec *s)
{
	return s->lookup_more != NULL && s->lookup_next == NULL && !s->lookup_one;
}

static bool
pages_shift(const Spec *s)
{
	return s->next_by_number;
}

static bool
lookup_by_id(const Spec *s)
{
	JsonbValue path;

	if (s->lookup_path == NULL)
		return false;
	path = text_value(s->lookup_path);
	return has_name(&path, "external_id") || has_name(s->lookup_query, "external_id");
}

static bool
unused_secret(const Spec *s)
{
	return s->secret != NULL && s->auth == AUTH_NONE;
}

static bool
missing_secret(const Spec *s)
{
	return s->secret == NULL && s->auth != AUTH_NONE;
}

static bool
is_plain(const Spec *s)
{
	return wire_is_plain(s->base_url);
}

static bool
is_private(const Spec *s)
{
	return wire_host_is_private(s->base_url);
}

static const struct
{
	bool (*holds)(const Spec *spec);
	const char *text;
} prices[] = {
	{never_resent, "never resent by machine: no key.ttl says how long the provider "
				   "remembers a key"},
	{resent_after_proof, "resent only after proof of absence: the key does not guard"},
	{unknown_to_person, "an operation whose answer is lost goes to a person at once: "
						"there is no lookup and no key that guards"},
	{any_success, "any 2xx confirms, without an external id: there is no \"object\""},
	{believed_by_id, "an answer is believed by its id alone: there is no "
					 "\"object.marker\""},
	{one_page, "a lookup believes its first page to be all: there is no \"lookup.more\""},
	{more_unread, "a lookup whose list has more than one page proves nothing: there is "
				  "no \"lookup.next\""},
	{pages_shift, "a lookup that counts pages may miss an object while others vanish: "
				  "use a cursor where the provider has one"},
	{lookup_by_id, "a lookup needs the external id, which an operation whose answer is "
				   "lost does not have"},
	{missing_secret, "nothing can be sent: \"auth\" needs a secret, and there is none"},
	{unused_secret, "the secret is not used: \"auth.scheme\" is \"none\""},
	{is_plain, "requests and secrets go out in the clear: base_url is plain http"},
	{is_private, "base_url names a host of a private network"},
};

List *
profile_notices(const Spec *spec)
{
	List *notices = NIL;

	for (int i = 0; i < lengthof(prices); i++)
	{
		if (prices[i].holds(spec))
			notices = lappend(notices, unconstify(char *, prices[i].text));
	}
	return notices;
}

/* ------------------------------------------------------------- parsing */

/* "{key}" stands at the pointer and is filled in with the rest of the body. A
 * pointer whose parents are not there leads nowhere. */
static void
place_key(Spec *spec, const char *what)
{
	if (spec->key_place != KEY_IN_BODY)
		return;
	spec->body = json_set(spec->body, spec->key_name, "\"{key}\"");
	if (!has_name(spec->body, "key"))
		refuse(what, "key.name", "leads nowhere in the body",
			   "The object that is to hold the key is not in the request.",
			   "Add it to \"request\", as an empty object if need be.");
}

Spec *
profile_parse(const char *name, Jsonb *merged)
{
	char *what = psprintf("spec of action \"%s\"", name);
	Spec *spec = spec_read(what, merged, SPEC_MERGED, true);

	check_arg_names(spec, what);
	check_sense(spec, what);
	check_all_placeholders(spec, what);
	check_marker(spec, what);
	check_next(spec, what);
	check_id(spec, what);
	check_poll(spec, what);
	check_webhook(spec, what);
	check_rules(spec, what);
	check_auth(spec, what);
	check_key(spec, what);
	place_key(spec, what);
	return spec;
}

void
profile_check_part(const char *what, Jsonb *part, bool provider_level)
{
	(void) spec_read(what, part, provider_level ? SPEC_PROVIDER : SPEC_ACTION, false);
}

Jsonb *
profile_merge(Jsonb *a, Jsonb *b)
{
	return json_merge(a, b);
}
