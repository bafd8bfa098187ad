/* modules.h - the modules that may follow an attention layer, by the names of the originals. */
#ifndef ATTNI_MODULES_H
#define ATTNI_MODULES_H

#include "attention.h"
#include "options.h"

/* Read the option `name` (a module, null or left out: none) into *post. Normalisations are always
 * possible; activations only where activation is true. length: positions of the layer. Failures
 * are recorded in options. */
void attni_module_read(struct attni_options *options, const char *name, bool activation,
                       size_t length, struct attn_post_spec *post);

bool attni_module_is_normalisation(const struct attn_post_spec *post);

#endif
