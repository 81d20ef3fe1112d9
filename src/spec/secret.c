/*
 * secret.c - secrets by reference: "file:NAME" or "env:NAME".
 *
 * Invariants:
 *
 *  1. A secret is read when it is used and is kept nowhere. No error shows it,
 *     nor a reference that may be a secret put in the wrong place.
 *  2. A file stands in the directory of the setting, also after all symbolic
 *     links are followed.
 *  3. What is returned can stand in a header: not empty, no control characters.
 */
#include "postgres.h"

#include "spec/secret.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errors.h"
#include "storage/fd.h"

#define LONGEST_SECRET 16384

static const char *
behind(const char *text, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

static bool
is_file_name(const char *name)
{
	return *name != '\0' && *name != '.' && strlen(name) < NAME_MAX &&
		   strpbrk(name, "/\\") == NULL && strstr(name, "..") == NULL;
}

static bool
is_variable_name(const char *name)
{
	return *name != '\0' && !isdigit((unsigned char) *name) &&
		   strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
						"0123456789_") == strlen(name);
}

const char *
secret_fault(const char *reference)
{
	const char *name;

	if ((name = behind(reference, "file:")) != NULL)
		return is_file_name(name) ? NULL : "must name a file, without a directory";
	if ((name = behind(reference, "env:")) != NULL)
		return is_variable_name(name) ? NULL : "must name an environment variable";
	return "must be \"file:NAME\" or \"env:NAME\"";
}

static _Noreturn void
unreadable(const char *reference, const char *detail, const char *hint)
{
	ereport(ERROR, errcode(OPL_ERR_SECRET),
			errmsg("secret \"%s\" cannot be read", reference), errdetail("%s", detail),
			hint ? errhint("%s", hint) : 0);
}

/* Where the file really is. */
static char *
file_path(const char *reference, const char *name, const char *directory)
{
	char   home[PATH_MAX];
	char   path[PATH_MAX];
	size_t len;

	if (directory == NULL || *directory == '\0')
		unreadable(reference, "There is no directory of secrets.",
				   "Set op_ledger.secret_dir.");
	if (realpath(directory, home) == NULL)
		unreadable(reference, psprintf("The directory of secrets: %s.", strerror(errno)),
				   "Check op_ledger.secret_dir.");
	if (realpath(psprintf("%s/%s", home, name), path) == NULL)
		unreadable(
			reference, psprintf("The file: %s.", strerror(errno)),
			"The file stands in op_ledger.secret_dir and belongs to the server's user.");
	len = strlen(home);
	if (strncmp(path, home, len) != 0 || path[len] != '/')
		unreadable(reference, "It is a link that leads out of the directory of secrets.",
				   NULL);
	return pstrdup(path);
}

/* Its bytes, as far as they fit; -1: not a file, or unreadable. */
static ssize_t
read_file(const char *path, char *bytes, size_t room)
{
	struct stat st;
	size_t      len = 0;
	ssize_t     n = -1;
	int fd = OpenTransientFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | PG_BINARY);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
	{
		while (len < room && (n = read(fd, bytes + len, room - len)) > 0)
			len += n;
	}
	CloseTransientFile(fd);
	return n < 0 ? -1 : (ssize_t) len;
}

static char *
from_file(const char *reference, const char *name, const char *directory)
{
	char   *path = file_path(reference, name, directory);
	char   *secret = palloc(LONGEST_SECRET + 2);
	ssize_t len = read_file(path, secret, LONGEST_SECRET + 1);

	if (len < 0)
		unreadable(reference, "It is not a file that the server may read.", NULL);
	if (len > LONGEST_SECRET)
		unreadable(reference, psprintf("It is longer than %d bytes.", LONGEST_SECRET),
				   NULL);
	if (len > 0 && secret[len - 1] == '\n')
		len--;
	if (len > 0 && secret[len - 1] == '\r')
		len--;
	secret[len] = '\0';
	if (strlen(secret) != len)
		unreadable(reference, "It has a byte in it that no header can carry.", NULL);
	return secret;
}

static char *
from_environment(const char *reference, const char *name)
{
	const char *value = getenv(name);

	if (value == NULL)
		unreadable(reference, "The server's environment has no such variable.",
				   "Set it where the server is started, and restart.");
	return pstrdup(value);
}

char *
secret_read(const char *reference, const char *directory)
{
	const char *fault = secret_fault(reference);
	const char *name;
	char       *secret;

	if (fault != NULL)
		ereport(ERROR, errcode(OPL_ERR_SECRET), errmsg("a secret's reference %s", fault));
	if ((name = behind(reference, "file:")) != NULL)
		secret = from_file(reference, name, directory);
	else
		secret = from_environment(reference, behind(reference, "env:"));
	if (*secret == '\0')
		unreadable(reference, "It is empty.", NULL);
	for (const char *p = secret; *p != '\0'; p++)
	{
		if ((unsigned char) *p < ' ' || *p == 0x7f)
			unreadable(reference, "It has a byte in it that no header can carry.", NULL);
	}
	return secret;
}
