/* text.c - pieces of error messages.
 *
 * Used by every part of the codec on the worker that serves the request; keeps no state. */
#include "codec/text.h"

#include <stdarg.h>
#include <stdio.h>

void ad_text_add(struct ad_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t left = sizeof text->bytes - text->n;
    int wanted = vsnprintf(text->bytes + text->n, left, format, arguments);
    va_end(arguments);
    if (wanted > 0) {
        text->n += (size_t)wanted < left ? (size_t)wanted : left - 1;
    }
}

void ad_text_add_shape(struct ad_text *text, const size_t *shape, size_t rank)
{
    ad_text_add(text, "[");
    for (size_t i = 0; i < rank; i++) {
        ad_text_add(text, "%s%zu", i > 0 ? "," : "", shape[i]);
    }
    ad_text_add(text, "]");
}

void ad_text_add_ports(struct ad_text *text, const struct attn_port *ports, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ad_text_add(text, "%s%s", i > 0 ? ", " : "", ports[i].name);
    }
}

const char *ad_text_kind(const char *at, const char *end)
{
    switch (at < end ? *at : '\0') {
    case '"':
        return "a string";
    case '[':
        return "a list";
    case '{':
        return "an object";
    case ',':
    case ']':
    case '}':
    case '\0':
        return "nothing";
    case 't':
    case 'f':
        return "a boolean";
    case 'n':
        return "null";
    case '-':
        return "a number";
    default:
        return *at >= '0' && *at <= '9' ? "a number" : "something that is not JSON";
    }
}
