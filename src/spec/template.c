/*
 * template.c - "{name}" in a spec's strings -> bytes of a request.
 *
 * Invariants:
 *
 *  1. Only the spec's own strings are templates. What an argument holds is data
 *     and is never expanded again, whatever braces stand in it.
 *  2. A value cannot leave its place: in a path it stays in its segment, in a
 *     query or form in its field, in JSON in its value.
 *  3. The same spec and arguments give the same bytes: members stand in the
 *     order of jsonb, numbers with the digits they were given with.
 */
#include "spec/template.h"

#include "base/canon.h"
#include "base/errors.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

/* What RFC 3986 calls unreserved. */
#define UNRESERVED               \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ" \
	"abcdefghijklmnopqrstuvwxyz" \
	"0123456789-._~"

/* A piece of a template: text as it is, or the name in a placeholder. */
typedef struct Piece
{
	const char *start;
	int         len;
	bool        name;
} Piece;

/* A value on its way into a body. Without a scope it is data. */
typedef struct Part
{
	JsonbValue   value;
	const Scope *scope;
} Part;

/* Names that are no arguments. */
static const struct
{
	const char *name;
	size_t      offset;
} Reserved[] = {
	{"op_id", offsetof(Scope, op_id)},
	{"marker", offsetof(Scope, marker)},
	{"external_id", offsetof(Scope, external_id)},
	{"key", offsetof(Scope, key)},
};

/* --------------------------------------------------------------- reading */

static void
refuse_brace(const char *text, int len, char brace)
{
	ereport(ERROR,
			(errcode(OPL_ERR_SPEC),
			 errmsg("template \"%.*s\" has a \"%c\" that belongs to no placeholder", len,
					text, brace),
			 errhint("A placeholder is \"{name}\", without blanks; write a brace itself "
					 "twice.")));
}

static bool
is_brace(char c)
{
	return c == '{' || c == '}';
}

static const char *
until_brace(const char *p, const char *end)
{
	while (p < end && !is_brace(*p))
		p++;
	return p;
}

/* What a name is made of: not of what stands in the braces of code. */
static bool
is_name(const char *name, int len)
{
	for (int i = 0; i < len; i++)
		if (!IS_HIGHBIT_SET(name[i]) && (name[i] == '\0' || !strchr(UNRESERVED, name[i])))
			return false;
	return len > 0;
}

/* The next piece of text, moving *at behind it; false at the end. */
static bool
next_piece(const char *text, int len, int *at, Piece *piece)
{
	const char *p = text + *at;
	const char *end = text + len;
	const char *stop;
	const char *after;

	if (p >= end)
		return false;
	piece->name = is_brace(*p) && (p + 1 == end || p[1] != *p);
	piece->start = piece->name ? p + 1 : p;
	if (piece->name)
	{
		stop = until_brace(p + 1, end);
		if (*p == '}' || stop == end || *stop == '{' ||
			!is_name(p + 1, (int) (stop - p) - 1))
			refuse_brace(text, len, *p);
		after = stop + 1;
	}
	else if (is_brace(*p)) /* doubled: a brace that is meant */
	{
		stop = p + 1;
		after = p + 2;
	}
	else
		stop = after = until_brace(p, end);
	piece->len = (int) (stop - piece->start);
	*at = (int) (after - text);
	return true;
}

/* Is the text one placeholder and nothing else? */
static bool
stands_alone(const char *text, int len, Piece *piece)
{
	int at = 0;

	return next_piece(text, len, &at, piece) && piece->name && at == len;
}

/* What a name stands for; false: an argument that was not given. */
static bool
find_name(const Scope *scope, const Piece *name, JsonbValue *value)
{
	for (int i = 0; i < lengthof(Reserved); i++)
	{
		char *text;

		if (strlen(Reserved[i].name) != name->len ||
			memcmp(Reserved[i].name, name->start, name->len) != 0)
			continue;
		text = *(char *const *) ((const char *) scope + Reserved[i].offset);
		if (text == NULL)
			ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
							errmsg("\"{%s}\" is not known here", Reserved[i].name)));
		value->type = jbvString;
		value->val.string.val = text;
		value->val.string.len = (int) strlen(text);
		return true;
	}
	return scope->args && JB_ROOT_IS_OBJECT(scope->args) &&
		   getKeyJsonValueFromContainer(&scope->args->root, name->start, name->len,
										value);
}

static const char *
type_word(const JsonbValue *value)
{
	if (value->type == jbvNull)
		return "null";
	if (value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data))
		return "an array";
	return "an object";
}

/* A scalar as text; numbers with the digits they were given with. NULL: it is
 * null, an array or an object. */
static char *
scalar_text(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(
				DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			return NULL;
	}
}

/* --------------------------------------------------------------- writing */

/* All that is neither unreserved nor in `keep` as %XX. */
static void
append_encoded(StringInfo out, const char *text, int len, const char *keep)
{
	for (const char *p = text; p < text + len; p++)
	{
		if (*p && (strchr(UNRESERVED, *p) || strchr(keep, *p)))
			appendStringInfoCharMacro(out, *p);
		else
			appendStringInfo(out, "%%%02X", (unsigned char) *p);
	}
}

/* The text of a placeholder that stands among other text. */
static char *
placeholder_text(const Scope *scope, const Piece *name, Escape escape)
{
	JsonbValue value;
	char      *text;

	if (!find_name(scope, name, &value))
		ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
						errmsg("argument \"%.*s\" is missing", name->len, name->start),
						errhint("Give it among the arguments of the operation.")));
	text = scalar_text(&value);
	if (text == NULL)
		ereport(
			ERROR,
			(errcode(OPL_ERR_ARGUMENT),
			 errmsg("argument \"%.*s\" is %s", name->len, name->start, type_word(&value)),
			 errdetail(
				 "It stands in text, which takes a string, a number or a boolean.")));
	if (escape == ESCAPE_PATH && *text == '\0')
		ereport(ERROR,
				(errcode(OPL_ERR_ARGUMENT),
				 errmsg("argument \"%.*s\" is empty", name->len, name->start),
				 errdetail("It stands in a path, which would become another one.")));
	return text;
}

static void
expand(StringInfo out, const char *text, int len, const Scope *scope, Escape escape)
{
	int   at = 0;
	Piece piece;

	while (next_piece(text, len, &at, &piece))
	{
		if (!piece.name)
			appendBinaryStringInfo(out, piece.start, piece.len);
		else
		{
			char *value = placeholder_text(scope, &piece, escape);

			if (escape == ESCAPE_NONE)
				appendStringInfoString(out, value);
			else
				append_encoded(out, value, (int) strlen(value), "");
			pfree(value);
		}
	}
}

/* "." and ".." walk, encoded or not, so they are refused. */
static void
check_segments(const char *path, const char *text)
{
	for (const char *p = path; *p && *p != '?';)
	{
		size_t len = strcspn(p, "/?");

		if ((len == 1 || len == 2) && strspn(p, ".") >= len)
			ereport(ERROR,
					(errcode(OPL_ERR_ARGUMENT),
					 errmsg("path \"%s\" would have a segment \".\" or \"..\"", text),
					 errdetail("Such a segment leads to another path.")));
		p += len;
		if (*p == '/')
			p++;
	}
}

char *
template_text(const char *text, const Scope *scope, Escape escape)
{
	StringInfoData out;

	initStringInfo(&out);
	expand(&out, text, (int) strlen(text), scope, escape);
	if (escape == ESCAPE_PATH)
		check_segments(out.data, text);
	return out.data;
}

/* ---------------------------------------------------------------- values */

/* Values come as scalars, as containers, or as trees in memory. */
static JsonbValue
as_stored(const JsonbValue *value)
{
	JsonbValue stored = *value;

	if (value->type == jbvObject || value->type == jbvArray)
	{
		Jsonb *json = JsonbValueToJsonb(unconstify(JsonbValue *, value));

		stored.type = jbvBinary;
		stored.val.binary.data = &json->root;
		stored.val.binary.len = VARSIZE(json) - VARHDRSZ;
	}
	else if (value->type == jbvBinary && JsonContainerIsScalar(value->val.binary.data))
		JsonbExtractScalar(value->val.binary.data, &stored);
	return stored;
}

/* Fills in placeholders at the top of a value; false: it is to be left out. */
static bool
resolve(const JsonbValue *value, const Scope *scope, Part *part)
{
	Piece          piece;
	StringInfoData text;

	part->value = as_stored(value);
	part->scope = scope;
	if (scope == NULL || part->value.type != jbvString)
		return true;
	if (stands_alone(part->value.val.string.val, part->value.val.string.len, &piece))
	{
		part->scope = NULL;
		return find_name(scope, &piece, &part->value);
	}
	initStringInfo(&text);
	expand(&text, part->value.val.string.val, part->value.val.string.len, scope,
		   ESCAPE_NONE);
	part->value.val.string.val = text.data;
	part->value.val.string.len = text.len;
	return true;
}

/* ------------------------------------------------------------------ JSON */

static void write_json(StringInfo out, const Part *part);

static void
write_json_members(StringInfo out, JsonbContainer *container, const Scope *scope)
{
	JsonbIterator     *it = JsonbIteratorInit(container);
	bool               object = JsonContainerIsObject(container);
	bool               first = true;
	JsonbValue         key = {0};
	JsonbValue         value;
	JsonbIteratorToken token;
	Part               part;

	check_stack_depth();
	appendStringInfoChar(out, object ? '{' : '[');
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			key = value;
		if ((token != WJB_VALUE && token != WJB_ELEM) || !resolve(&value, scope, &part))
			continue;
		if (!first)
			appendStringInfoChar(out, ',');
		first = false;
		if (object)
		{
			canon_json_string(out, key.val.string.val, key.val.string.len);
			appendStringInfoChar(out, ':');
		}
		write_json(out, &part);
	}
	appendStringInfoChar(out, object ? '}' : ']');
}

static void
write_json(StringInfo out, const Part *part)
{
	const JsonbValue *value = &part->value;

	if (value->type == jbvBinary)
		write_json_members(out, value->val.binary.data, part->scope);
	else if (value->type == jbvString)
		canon_json_string(out, value->val.string.val, value->val.string.len);
	else if (value->type == jbvNull)
		appendStringInfoString(out, "null");
	else
		appendStringInfoString(out, scalar_text(value));
}

void
template_json(StringInfo out, const JsonbValue *value, const Scope *scope)
{
	Part part;

	if (!resolve(value, scope, &part))
		ereport(ERROR, (errcode(OPL_ERR_ARGUMENT),
						errmsg("the argument that is the whole body is missing"),
						errhint("Give it among the arguments of the operation.")));
	write_json(out, &part);
}

/* ------------------------------------------------------------------ form */

static void write_form(StringInfo out, const char *name, const Part *part);

/* name, or prefix[name]. What an argument calls its members must not look like
 * nesting of its own. */
static char *
form_name(const char *prefix, const JsonbValue *key, bool given)
{
	const char    *name = key->val.string.val;
	int            len = key->val.string.len;
	StringInfoData out;

	if (given && (len == 0 || memchr(name, '[', len) || memchr(name, ']', len)))
		ereport(
			ERROR,
			(errcode(OPL_ERR_ARGUMENT),
			 errmsg("member \"%.*s\" of an argument cannot be the name of a form field",
					len, name),
			 errdetail("It is empty or has a bracket in it.")));
	initStringInfo(&out);
	if (prefix)
		appendStringInfo(&out, "%s[", prefix);
	append_encoded(&out, name, len, "[]");
	if (prefix)
		appendStringInfoChar(&out, ']');
	return out.data;
}

static void
write_form_members(StringInfo out, const char *prefix, JsonbContainer *container,
				   const Scope *scope)
{
	JsonbIterator     *it = JsonbIteratorInit(container);
	char              *name = NULL;
	int                n = 0;
	JsonbValue         value;
	JsonbIteratorToken token;
	Part               part;

	check_stack_depth();
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			name = form_name(prefix, &value, scope == NULL);
		if ((token != WJB_VALUE && token != WJB_ELEM) || !resolve(&value, scope, &part))
			continue;
		if (part.value.type == jbvNull)
			continue;
		if (token == WJB_ELEM)
			name = psprintf("%s[%d]", prefix, n++);
		write_form(out, name, &part);
	}
}

static void
write_form(StringInfo out, const char *name, const Part *part)
{
	char *text;

	if (part->value.type == jbvBinary)
	{
		write_form_members(out, name, part->value.val.binary.data, part->scope);
		return;
	}
	text = scalar_text(&part->value);
	if (out->len > 0)
		appendStringInfoChar(out, '&');
	appendStringInfo(out, "%s=", name);
	append_encoded(out, text, (int) strlen(text), "");
}

void
template_form(StringInfo out, const JsonbValue *object, const Scope *scope)
{
	JsonbValue     stored = as_stored(object);
	StringInfoData form;

	if (stored.type != jbvBinary || !JsonContainerIsObject(stored.val.binary.data))
		ereport(ERROR, (errcode(OPL_ERR_SPEC), errmsg("a form or query is not an object"),
						errhint("Its members are the fields.")));
	initStringInfo(&form);
	write_form_members(&form, NULL, stored.val.binary.data, scope);
	appendBinaryStringInfo(out, form.data, form.len);
	pfree(form.data);
}

/* ----------------------------------------------------------------- names */

static List *
add_names(List *names, const JsonbValue *string)
{
	int   at = 0;
	Piece piece;

	while (next_piece(string->val.string.val, string->val.string.len, &at, &piece))
	{
		char     *name;
		ListCell *cell;
		bool      known = false;

		if (!piece.name)
			continue;
		name = pnstrdup(piece.start, piece.len);
		foreach (cell, names)
			known = known || strcmp(lfirst(cell), name) == 0;
		if (!known)
			names = lappend(names, name);
	}
	return names;
}

List *
template_names(const JsonbValue *value)
{
	JsonbValue         stored = as_stored(value);
	List              *names = NIL;
	JsonbIterator     *it;
	JsonbIteratorToken token;

	if (stored.type == jbvString)
		return add_names(NIL, &stored);
	if (stored.type != jbvBinary)
		return NIL;
	it = JsonbIteratorInit(stored.val.binary.data);
	while ((token = JsonbIteratorNext(&it, &stored, false)) != WJB_DONE)
		if ((token == WJB_VALUE || token == WJB_ELEM) && stored.type == jbvString)
			names = add_names(names, &stored);
	return names;
}
