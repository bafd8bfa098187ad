/* draws.h - the constants of the generator Philox4x32-10 (Salmon, Moraes, Dror and Shaw: Parallel random
 * numbers: as easy as 1, 2, 3; SC 2011). */
#ifndef ATTNI_DRAWS_H
#define ATTNI_DRAWS_H

#include <stdint.h>

#define ATTNI_DRAW_ROUNDS 10
/* Words 0 and 2 of the counter are multiplied by these in every round, */
#define ATTNI_DRAW_MULTIPLIER_0 UINT32_C(0xd2511f53)
#define ATTNI_DRAW_MULTIPLIER_1 UINT32_C(0xcd9e8d57)
/* and after it the words of the key are increased by these. */
#define ATTNI_DRAW_STEP_0 UINT32_C(0x9e3779b9)
#define ATTNI_DRAW_STEP_1 UINT32_C(0xbb67ae85)

#endif
