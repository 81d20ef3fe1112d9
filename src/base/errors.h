/*
 * errors.h - the SQLSTATEs of class OL. doc/reference.md lists them for users.
 */
#ifndef OPL_ERRORS_H
#define OPL_ERRORS_H

#include "postgres.h"

/* no such operation */
#define OPL_ERR_NOT_FOUND MAKE_SQLSTATE('O', 'L', '0', '0', '1')
/* the id means something else */
#define OPL_ERR_OTHER_ARGS MAKE_SQLSTATE('O', 'L', '0', '0', '2')
/* a spec is wrong */
#define OPL_ERR_SPEC MAKE_SQLSTATE('O', 'L', '0', '0', '3')
/* an argument is wrong */
#define OPL_ERR_ARGUMENT MAKE_SQLSTATE('O', 'L', '0', '0', '4')
/* no such action, provider, profile */
#define OPL_ERR_NO_ACTION MAKE_SQLSTATE('O', 'L', '0', '0', '5')
/* not an op id */
#define OPL_ERR_OP_ID MAKE_SQLSTATE('O', 'L', '0', '0', '6')
/* not in this state */
#define OPL_ERR_STATE MAKE_SQLSTATE('O', 'L', '0', '0', '7')
/* a secret cannot be read */
#define OPL_ERR_SECRET MAKE_SQLSTATE('O', 'L', '0', '0', '8')
/* not an arrow of the states */
#define OPL_ERR_ARROW MAKE_SQLSTATE('O', 'L', '0', '0', '9')
/* this copy may not send */
#define OPL_ERR_HOME MAKE_SQLSTATE('O', 'L', '0', '1', '0')
/* a webhook that is not believed */
#define OPL_ERR_WEBHOOK MAKE_SQLSTATE('O', 'L', '0', '1', '1')

#endif
