/*
 * redact.c - places in a document that people are not shown.
 *
 * A jsonpath tells values, not where they stand, so that its steps are walked
 * here: a set of steps, one bit each, goes down the document beside the value.
 * Where lax mode has a choice both ways are walked; rather too much is hidden.
 */
#include "postgres.h"

#include "spec/redact.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#define MAX_STEPS 60
#define BIT(n) (UINT64CONST(1) << (n))
#define HIDDEN "***"

typedef enum StepKind
{
	STEP_MEMBER,  /* .name */
	STEP_ANY,     /* .* */
	STEP_ELEMENT, /* [*] */
	STEP_INDEX,   /* [3] */
	STEP_DEEP     /* .** */
} StepKind;

typedef struct Step
{
	StepKind    kind;
	const char *name;
	int         len;
	int         index;
} Step;

struct RedactPath
{
	int  nsteps;
	Step steps[MAX_STEPS];
};

/* ---------------------------------------------------------------- reading */

static bool
is_name_char(char c)
{
	return isalnum((unsigned char) c) || c == '_' || c == '$' || IS_HIGHBIT_SET(c);
}

/* Behind the dot; NULL: no step. */
static const char *
read_member(const char *c, Step *step)
{
	bool        quoted = *c == '"';
	const char *end;

	step->kind = STEP_MEMBER;
	step->name = quoted ? c + 1 : c;
	for (end = step->name; *end && (quoted ? *end != '"' : is_name_char(*end)); end++)
	{
		if (*end == '\\')
			return NULL;
	}
	step->len = end - step->name;
	if (quoted ? *end != '"' : step->len == 0)
		return NULL;
	return quoted ? end + 1 : end;
}

static const char *
read_brackets(const char *c, Step *step)
{
	step->kind = STEP_INDEX;
	if (strncmp(c, "[*]", 3) == 0)
	{
		step->kind = STEP_ELEMENT;
		return c + 3;
	}
	for (c++; isdigit((unsigned char) *c) && step->index < 1000000; c++)
		step->index = step->index * 10 + (*c - '0');
	return *c == ']' && c[-1] != '[' ? c + 1 : NULL;
}

static const char *
read_step(const char *c, Step *step)
{
	memset(step, 0, sizeof(Step));
	if (*c == '[')
		return read_brackets(c, step);
	if (*c != '.')
		return NULL;
	if (strncmp(c, ".**", 3) == 0)
	{
		step->kind = STEP_DEEP;
		return c[3] == '{' ? NULL : c + 3;
	}
	if (c[1] == '*')
	{
		step->kind = STEP_ANY;
		return c + 2;
	}
	return read_member(c + 1, step);
}

RedactPath *
redact_parse(const char *text)
{
	RedactPath *path = palloc0(sizeof(RedactPath));
	const char *c = pstrdup(text); /* the steps point into it */

	if (*c++ != '$')
		return NULL;
	while (c != NULL && *c != '\0' && path->nsteps < MAX_STEPS)
		c = read_step(c, &path->steps[path->nsteps++]);
	return c != NULL && *c == '\0' ? path : NULL;
}

/* ---------------------------------------------------------------- walking */

/* Steps that lead on without going down: nothing at all for .**, and lax mode
 * takes what is no array for an array of one. */
static uint64
stand(const RedactPath *path, uint64 at, bool array)
{
	for (int i = 0; i < path->nsteps; i++)
	{
		const Step *step = &path->steps[i];
		bool        one =
			step->kind == STEP_ELEMENT || (step->kind == STEP_INDEX && step->index == 0);

		if ((at & BIT(i)) && (step->kind == STEP_DEEP || (!array && one)))
			at |= BIT(i + 1);
	}
	return at;
}

static uint64
into_member(const RedactPath *path, uint64 at, const char *name, int len)
{
	uint64 next = 0;

	for (int i = 0; i < path->nsteps; i++)
	{
		const Step *step = &path->steps[i];

		if (!(at & BIT(i)))
			continue;
		if (step->kind == STEP_DEEP)
			next |= BIT(i);
		else if (step->kind == STEP_ANY ||
				 (step->kind == STEP_MEMBER && step->len == len &&
				  memcmp(step->name, name, len) == 0))
			next |= BIT(i + 1);
	}
	return next;
}

/* Lax mode looks for members in the elements of an array, too. */
static uint64
into_element(const RedactPath *path, uint64 at, int index)
{
	uint64 next = 0;

	for (int i = 0; i < path->nsteps; i++)
	{
		const Step *step = &path->steps[i];

		if (!(at & BIT(i)))
			continue;
		if (step->kind == STEP_ELEMENT ||
			(step->kind == STEP_INDEX && step->index == index))
			next |= BIT(i + 1);
		else if (step->kind != STEP_INDEX)
			next |= BIT(i);
	}
	return next;
}

/* Where each of the paths stands. */
typedef struct Walk
{
	List   *paths;
	uint64 *at;
} Walk;

static Walk
start(List *paths)
{
	Walk w = {paths, palloc(sizeof(uint64) * Max(list_length(paths), 1))};

	for (int i = 0; i < list_length(paths); i++)
		w.at[i] = BIT(0);
	return w;
}

static bool
is_hidden(const Walk *w, bool array)
{
	bool hidden = false;

	for (int i = 0; i < list_length(w->paths); i++)
	{
		const RedactPath *path = list_nth(w->paths, i);

		w->at[i] = stand(path, w->at[i], array);
		hidden = hidden || (w->at[i] & BIT(path->nsteps));
	}
	return hidden;
}

/* `name` NULL: the element `index`. */
static Walk
go_down(const Walk *w, const char *name, int len, int index)
{
	Walk below = start(w->paths);

	for (int i = 0; i < list_length(w->paths); i++)
	{
		const RedactPath *path = list_nth(w->paths, i);

		below.at[i] = name ? into_member(path, w->at[i], name, len)
						   : into_element(path, w->at[i], index);
	}
	return below;
}

/* ------------------------------------------------------------------- JSON */

static JsonbValue *copy_container(JsonbParseState **out, JsonbContainer *in,
								  const Walk *w);

static void
copy_value(JsonbParseState **out, JsonbIteratorToken as, JsonbValue *value, Walk w)
{
	bool array =
		value->type == jbvBinary && (value->val.binary.data->header & JB_FARRAY) != 0;
	JsonbValue hidden = {.type = jbvString};

	if (is_hidden(&w, array))
	{
		hidden.val.string.val = HIDDEN;
		hidden.val.string.len = strlen(HIDDEN);
		(void) pushJsonbValue(out, as, &hidden);
	}
	else if (value->type == jbvBinary)
		(void) copy_container(out, value->val.binary.data, &w);
	else
		(void) pushJsonbValue(out, as, value);
}

static JsonbValue *
copy_container(JsonbParseState **out, JsonbContainer *in, const Walk *w)
{
	JsonbIterator     *it = JsonbIteratorInit(in);
	JsonbValue         v;
	JsonbValue         key = {.type = jbvNull};
	JsonbIteratorToken token;
	JsonbValue        *whole = NULL;
	int                index = 0;

	check_stack_depth();
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			key = v;
		if (token == WJB_VALUE)
			copy_value(out, token, &v,
					   go_down(w, key.val.string.val, key.val.string.len, 0));
		else if (token == WJB_ELEM)
			copy_value(out, token, &v, go_down(w, NULL, 0, index++));
		else
			whole = pushJsonbValue(out, token, token == WJB_KEY ? &v : NULL);
	}
	return whole;
}

Jsonb *
redact_json(Jsonb *json, List *paths)
{
	JsonbParseState *out = NULL;
	Walk             w = start(paths);

	if (is_hidden(&w, JB_ROOT_IS_ARRAY(json) && !JB_ROOT_IS_SCALAR(json)))
		return DatumGetJsonbP(
			DirectFunctionCall1(jsonb_in, CStringGetDatum("\"" HIDDEN "\"")));
	if (JB_ROOT_IS_SCALAR(json))
		return json;
	return JsonbValueToJsonb(copy_container(&out, &json->root, &w));
}

/* ------------------------------------------------------------------ forms */

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = pg_tolower((unsigned char) c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static char *
decode(const char *text, size_t len)
{
	char *out = palloc(len + 1);
	char *o = out;

	for (size_t i = 0; i < len; i++)
	{
		if (text[i] == '%' && i + 2 < len && hex_digit(text[i + 1]) >= 0 &&
			hex_digit(text[i + 2]) >= 0)
		{
			*o++ = (char) (hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
			i += 2;
		}
		else
			*o++ = text[i] == '+' ? ' ' : text[i];
	}
	*o = '\0';
	return out;
}

/* card[number] is $.card.number; a number, or nothing, between the brackets may
 * be an element as well. */
static bool
name_is_hidden(char *name, List *paths)
{
	Walk  w = start(paths);
	bool  hidden = is_hidden(&w, false);
	char *rest = NULL;

	for (char *part = strtok_r(name, "[]", &rest); part != NULL && !hidden;
		 part = strtok_r(NULL, "[]", &rest))
	{
		bool number = strspn(part, "0123456789") == strlen(part);
		Walk below = go_down(&w, part, strlen(part), 0);
		Walk element = go_down(&w, NULL, 0, number ? atoi(part) : 0);

		for (int i = 0; number && i < list_length(paths); i++)
			below.at[i] |= element.at[i];
		w = below;
		hidden = is_hidden(&w, false);
	}
	return hidden;
}

char *
redact_form(const char *form, size_t len, List *paths)
{
	StringInfoData out;
	const char    *end = form + len;

	initStringInfo(&out);
	for (const char *pair = form; pair < end;)
	{
		const char *amp = memchr(pair, '&', end - pair);
		const char *stop = amp ? amp : end;
		const char *equals = memchr(pair, '=', stop - pair);
		const char *name_end = equals ? equals : stop;

		if (equals && name_is_hidden(decode(pair, name_end - pair), paths))
			appendStringInfo(&out, "%.*s=%s", (int) (name_end - pair), pair, HIDDEN);
		else
			appendBinaryStringInfo(&out, pair, stop - pair);
		if (amp)
			appendStringInfoChar(&out, '&');
		pair = stop + 1;
	}
	return out.data;
}
