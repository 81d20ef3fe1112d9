/*
 * fields.c - a JSON object read by a table of its fields.
 *
 * Invariants:
 *
 *  1. What is not in the table is an error: a misspelt promise would otherwise
 *     be a promise not kept.
 *  2. An error names the field by its path and says what it must be. It does not
 *     show the value, since somebody may have pasted a secret there; of a
 *     jsonpath it shows where it went wrong.
 *  3. Nothing is half read: the first fault ends the reading.
 */
#include "postgres.h"

#include "spec/fields.h"

#include <math.h>

#include "base/errors.h"
#include "lib/stringinfo.h"
#include "base/jsonpath.h"
#include "base/scan.h"
#include "base/tree.h"
#include "utils/builtins.h"
#include "utils/formatting.h"
#include "utils/numeric.h"
#include "utils/varlena.h"

#define LONGEST_NAME 63

/* --------------------------------------------------------- nearest names */

static int
distance(const char *a, const char *b, int limit)
{
	char *x = asc_tolower(a, strlen(a));
	char *y = asc_tolower(b, strlen(b));

	return varstr_levenshtein_less_equal(x, strlen(x), y, strlen(y), 1, 1, 1, limit,
										 true);
}

const char *
nearest_name(const char *name, const char *const *names, int count)
{
	const char *best = NULL;
	int         closest;

	if (strlen(name) > LONGEST_NAME)
		return NULL;
	closest = Max(1, (int) strlen(name) / 3);
	for (int i = 0; i < count; i++)
	{
		int d = distance(name, names[i], closest + 1);

		if (d < closest || (d == closest && best == NULL))
		{
			best = names[i];
			closest = d;
		}
	}
	return best;
}

/* ------------------------------------------------------------ the table */

/* Where the name of a row begins: behind the path of its parent. */
static const char *
leaf_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot == NULL ? path : dot + 1;
}

/* Is the row a direct member of `parent` ("" is the root)? */
static bool
stands_in(const Field *field, const char *parent)
{
	size_t len = strlen(parent);
	size_t above = leaf_of(field->path) - field->path;

	if (len == 0)
		return above == 0;
	return above == len + 1 && strncmp(field->path, parent, len) == 0;
}

static const Field *
find_field(const Reading *reading, const char *parent, const char *name)
{
	for (const Field *f = reading->table; f->path != NULL; f++)
	{
		if (stands_in(f, parent) && strcmp(leaf_of(f->path), name) == 0)
			return f;
	}
	return NULL;
}

static bool
allowed(const Reading *reading, const Field *field)
{
	int levels = field->flags & FIELD_LEVELS;

	return levels == 0 || (levels & reading->level) != 0;
}

static int
names_in(const Reading *reading, const char *parent, const char **names)
{
	int n = 0;

	for (const Field *f = reading->table; f->path != NULL; f++)
	{
		if (stands_in(f, parent) && allowed(reading, f) && f->read != read_later)
			names[n++] = leaf_of(f->path);
	}
	return n;
}

static int
table_length(const Field *table)
{
	int n = 0;

	while (table[n].path != NULL)
		n++;
	return n;
}

/* A known name in the wrong place. */
static const char *
elsewhere(const Reading *reading, const char *name)
{
	for (const Field *f = reading->table; f->path != NULL; f++)
	{
		if (strcmp(leaf_of(f->path), name) == 0)
			return f->path;
	}
	return NULL;
}

static char *
hint_for_unknown(const Reading *reading, const char *parent, const char *name)
{
	const char   **names = palloc(sizeof(char *) * (table_length(reading->table) + 1));
	int            n = names_in(reading, parent, names);
	const char    *meant = nearest_name(name, names, n);
	StringInfoData known;

	if (meant == NULL)
		meant = elsewhere(reading, name);
	if (meant != NULL)
		return psprintf("Perhaps you meant \"%s\".", meant);
	initStringInfo(&known);
	for (int i = 0; i < n; i++)
		appendStringInfo(&known, "%s%s", i > 0 ? ", " : "", names[i]);
	return psprintf("Known here: %s.", known.data);
}

static _Noreturn void
unknown_field(const Reading *reading, const char *parent, const char *name,
			  const char *path)
{
	ereport(ERROR, errcode(OPL_ERR_SPEC),
			errmsg("unknown field \"%s\" in %s", path, reading->what),
			errhint("%s", hint_for_unknown(reading, parent, name)));
}

void
field_fault(const Place *place, const char *must, const char *detail, const char *hint)
{
	ereport(ERROR, errcode(OPL_ERR_SPEC),
			errmsg("field \"%s\" in %s %s", place->path, place->reading->what, must),
			detail ? errdetail("%s", detail) : 0, hint ? errhint("%s", hint) : 0);
}

static _Noreturn void
wrong_kind(const Place *place, const char *must, const JsonbValue *value)
{
	field_fault(place, must, psprintf("It is %s.", json_kind(value)), NULL);
}

/* A detail from a fault in words, which may come from PostgreSQL. */
static char *
sentence(const char *fault)
{
	char *s = psprintf("%s.", fault);

	s[0] = pg_toupper((unsigned char) s[0]);
	return s;
}

/* -------------------------------------------------------------- reading */

static void
check_required(const Reading *reading, const char *parent, const char *path,
			   const JsonbContainer *object)
{
	JsonbValue value;

	for (const Field *f = reading->table; f->path != NULL; f++)
	{
		if (!(f->flags & FIELD_REQUIRED) || !stands_in(f, parent))
			continue;
		if (!json_member(object, leaf_of(f->path), &value) || value.type == jbvNull)
			ereport(ERROR, errcode(OPL_ERR_SPEC),
					errmsg("field \"%s%s%s\" is missing in %s", path, *path ? "." : "",
						   leaf_of(f->path), reading->what));
	}
}

/* Each member of `object`, whose rows stand in `parent`. */
static void
read_object_at(const Reading *reading, const char *parent, const char *path,
			   const JsonbContainer *object, void *base)
{
	JsonbIterator     *it = JsonbIteratorInit(unconstify(JsonbContainer *, object));
	JsonbIteratorToken token;
	JsonbValue         value;

	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		char *name;
		Place place = {reading, NULL, NULL, base};

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(value.val.string.val, value.val.string.len);
		(void) JsonbIteratorNext(&it, &value, true);
		place.path = *path ? psprintf("%s.%s", path, name) : name;
		place.field = find_field(reading, parent, name);
		if (place.field == NULL)
			unknown_field(reading, parent, name, place.path);
		if (!allowed(reading, place.field))
			field_fault(&place, "is for the provider as a whole", NULL,
						"Set it in the provider's spec, or in its row.");
		if (value.type != jbvNull)
			place.field->read(&place, &value);
	}
	if (reading->whole)
		check_required(reading, parent, path, object);
}

void
fields_read(const Reading *reading, Jsonb *object, void *base)
{
	if (!JB_ROOT_IS_OBJECT(object))
		ereport(ERROR, errcode(OPL_ERR_SPEC),
				errmsg("%s must be a JSON object", reading->what));
	read_object_at(reading, "", "", &object->root, base);
}

void *
field_target(const Place *place)
{
	static int64 nowhere; /* larger than any scalar that is not kept */

	if (place->field->offset == FIELD_NOWHERE)
		return &nowhere;
	return (char *) place->base + place->field->offset;
}

/* ------------------------------------------------------ readers: many */

void
read_members(const Place *place, const JsonbValue *value)
{
	if (!json_is_object(value))
		wrong_kind(place, "must be an object", value);
	read_object_at(place->reading, place->field->path, place->path,
				   value->val.binary.data, place->base);
}

/* Room for `count` structs, known to the struct around. */
static char *
make_room(const Place *place, const FieldMany *many, int count)
{
	char *array = palloc0(many->size * Max(count, 1));

	*(char **) ((char *) place->base + many->array_offset) = array;
	*(int *) ((char *) place->base + many->count_offset) = count;
	return array;
}

void
read_map(const Place *place, const JsonbValue *value)
{
	const FieldMany   *many = place->field->extra;
	char              *each;
	JsonbIterator     *it;
	JsonbIteratorToken token;
	JsonbValue         v;

	if (!json_is_object(value))
		wrong_kind(place, "must be an object", value);
	each = make_room(place, many, JsonContainerSize(value->val.binary.data));
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		char *name;
		Place member = *place;

		if (token != WJB_KEY)
			continue;
		name = pnstrdup(v.val.string.val, v.val.string.len);
		(void) JsonbIteratorNext(&it, &v, true);
		member.path = psprintf("%s.%s", place->path, name);
		if (!json_is_object(&v))
			wrong_kind(&member, "must be an object", &v);
		*(char **) (each + many->name_offset) = name;
		read_object_at(place->reading, psprintf("%s.*", place->field->path), member.path,
					   v.val.binary.data, each);
		each += many->size;
	}
}

void
read_list(const Place *place, const JsonbValue *value)
{
	const FieldMany *many = place->field->extra;
	char            *each;
	int              n;

	if (!json_is_array(value))
		wrong_kind(place, "must be an array", value);
	n = JsonContainerSize(value->val.binary.data);
	each = make_room(place, many, n);
	for (int i = 0; i < n; i++)
	{
		JsonbValue *v = getIthJsonbValueFromContainer(value->val.binary.data, i);
		Place       element = *place;

		element.path = psprintf("%s[%d]", place->path, i);
		if (!json_is_object(v))
			wrong_kind(&element, "must be an object", v);
		read_object_at(place->reading, psprintf("%s[]", place->field->path), element.path,
					   v->val.binary.data, each + i * many->size);
	}
}

/* --------------------------------------------------- readers: one value */

/* Somebody who may write it would rely on it. */
void
read_later(const Place *place, const JsonbValue *value)
{
	field_fault(place, "has no effect yet, so it is refused", NULL, place->field->extra);
}

char *
field_text(const Place *place, const JsonbValue *value)
{
	if (value->type != jbvString)
		wrong_kind(place, "must be text", value);
	if (value->val.string.len == 0)
		field_fault(place, "must not be empty", NULL, NULL);
	return pnstrdup(value->val.string.val, value->val.string.len);
}

void
read_text(const Place *place, const JsonbValue *value)
{
	*(char **) field_target(place) = field_text(place, value);
}

void
read_name(const Place *place, const JsonbValue *value)
{
	char *name = field_text(place, value);

	if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789!#$%&'*+-.^_`|~") != strlen(name))
		field_fault(place, "must be the name of a header", NULL,
					"Header names are letters, digits and hyphens, such as "
					"\"Idempotency-Key\".");
	*(char **) field_target(place) = name;
}

static double
number_of(const JsonbValue *value)
{
	Datum d = DirectFunctionCall1(numeric_float8_no_overflow,
								  NumericGetDatum(value->val.numeric));

	return DatumGetFloat8(d);
}

static void
check_range(const Place *place, double number)
{
	const Field *f = place->field;

	if ((f->min != 0 || f->max != 0) && (number < f->min || number > f->max))
		field_fault(
			place,
			psprintf("must be from " INT64_FORMAT " to " INT64_FORMAT, f->min, f->max),
			NULL, NULL);
}

void
read_integer(const Place *place, const JsonbValue *value)
{
	double number;

	if (value->type != jbvNumeric)
		wrong_kind(place, "must be an integer", value);
	number = number_of(value);
	if (number != rint(number) || fabs(number) > PG_INT32_MAX)
		field_fault(place, "must be an integer", NULL, NULL);
	check_range(place, number);
	*(int *) field_target(place) = (int) number;
}

void
read_number(const Place *place, const JsonbValue *value)
{
	double number;

	if (value->type != jbvNumeric)
		wrong_kind(place, "must be a number", value);
	number = number_of(value);
	check_range(place, number);
	*(double *) field_target(place) = number;
}

void
read_boolean(const Place *place, const JsonbValue *value)
{
	if (value->type != jbvBool)
		wrong_kind(place, "must be true or false", value);
	*(bool *) field_target(place) = value->val.boolean;
}

static char *
duration_text(int64 microseconds)
{
	if (microseconds % USECS_PER_SEC == 0)
		return psprintf(INT64_FORMAT " s", microseconds / USECS_PER_SEC);
	return psprintf(INT64_FORMAT " ms", microseconds / 1000);
}

void
read_duration(const Place *place, const JsonbValue *value)
{
	const Field *f = place->field;
	const char  *hint =
		"Write a number and a unit, such as \"30 s\", \"24 h\" or \"3 d\".";
	int64 duration;
	char *fault;

	if (value->type != jbvString)
		field_fault(place, "must be a duration", psprintf("It is %s.", json_kind(value)),
					hint);
	if (!scan_duration(field_text(place, value), &duration, &fault))
		field_fault(place, "must be a duration", sentence(fault), hint);
	if (duration < f->min)
		field_fault(place, psprintf("must be at least %s", duration_text(f->min)), NULL,
					NULL);
	if (f->max != 0 && duration > f->max)
		field_fault(place, psprintf("must be at most %s", duration_text(f->max)), NULL,
					NULL);
	*(int64 *) field_target(place) = duration;
}

void
read_moment(const Place *place, const JsonbValue *value)
{
	char       *fault;
	TimestampTz moment;

	if (!scan_moment(field_text(place, value), &moment, &fault))
		field_fault(place, "must be a moment", sentence(fault), NULL);
	*(int64 *) field_target(place) = moment;
}

void
read_choice(const Place *place, const JsonbValue *value)
{
	const char *const *names = place->field->extra;
	char              *chosen = field_text(place, value);
	const char        *meant;
	StringInfoData     all;
	int                n;

	initStringInfo(&all);
	for (n = 0; names[n] != NULL; n++)
	{
		if (strcmp(names[n], chosen) == 0)
		{
			*(int *) field_target(place) = n;
			return;
		}
		appendStringInfo(&all, "%s%s", n > 0 ? ", " : "", names[n]);
	}
	meant = nearest_name(chosen, names, n);
	field_fault(place, psprintf("must be one of %s", all.data), NULL,
				meant ? psprintf("Perhaps you meant \"%s\".", meant) : NULL);
}

static void
read_jsonpath(const Place *place, const JsonbValue *value, bool condition)
{
	char     *fault;
	JsonPath *path = scan_path(field_text(place, value), condition, &fault);

	if (path == NULL)
		field_fault(place,
					condition ? "must be a jsonpath condition" : "must be a jsonpath",
					sentence(fault), NULL);
	*(JsonPath **) field_target(place) = path;
}

void
read_path(const Place *place, const JsonbValue *value)
{
	read_jsonpath(place, value, false);
}

void
read_condition(const Place *place, const JsonbValue *value)
{
	read_jsonpath(place, value, true);
}

void
read_paths(const Place *place, const JsonbValue *value)
{
	if (!json_is_array(value))
		wrong_kind(place, "must be an array of jsonpaths", value);
	for (int i = 0; i < JsonContainerSize(value->val.binary.data); i++)
	{
		Place element = *place;

		element.path = psprintf("%s[%d]", place->path, i);
		read_path(&element, getIthJsonbValueFromContainer(value->val.binary.data, i));
	}
}

void
read_any(const Place *place, const JsonbValue *value)
{
	JsonbValue *copy = palloc(sizeof(JsonbValue));

	*copy = *value;
	*(JsonbValue **) field_target(place) = copy;
}

void
read_object(const Place *place, const JsonbValue *value)
{
	if (!json_is_object(value))
		wrong_kind(place, "must be an object", value);
	read_any(place, value);
}
