/*
 * lemma.h - what is proven case by case, without a graph.
 */
#ifndef MODEL_LEMMA_H
#define MODEL_LEMMA_H

#include "search.h"

/* 1: what a fenced worker or a webhook says without showing an object moves
 * nothing, whatever the operation. tidy() in actors.cpp rests on it.
 * 2: with a clock that stands before the first or the last send, nothing that
 * may have taken effect is sent again.
 * 3: nor when the present place is another than the one it was sent to; and nothing
 * that is said there makes it fail. */
extern Outcome lemma(int which);

#endif
