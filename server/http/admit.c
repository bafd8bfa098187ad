/* admit.c - what a call has to do with access. Runs on the connection's I/O thread. */
#include "http/admit.h"
#include "base/clock.h"
#include "http/access.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_LINES 16 /* of one header; the last ones count */

/* ---- before the body ------------------------------------------------------------------------- */

/* A preflight asks whether a page may send what it is about to send. Browsers put no key into it. */
static bool is_preflight(const struct ad_call *call, const char *verb)
{
    return strcmp(verb, "OPTIONS") == 0 && call->headers.origin &&
           call->headers.requested_method &&
           ad_cors_is_on(ad_access_cors(call->service->access));
}

static enum ad_status check_preflight(struct ad_call *call)
{
    const struct ad_cors *cors = ad_access_cors(call->service->access);
    call->preflight = true;
    if (ad_cors_allow(cors, call->headers.origin)) {
        return AD_OK;
    }
    return ad_fail(&call->error, AD_FORBIDDEN,
                   "pages of the origin '%.200s' may not use this server "
                   "(--cors-allow-origins)",
                   call->headers.origin);
}

enum ad_status ad_admit_check(struct ad_call *call, const char *verb)
{
    enum ad_status status = AD_OK;
    if (is_preflight(call, verb)) {
        status = check_preflight(call);
    } else {
        status = ad_route_check_verb(call->route, verb, &call->error);
        if (status) {
            return status; /* says nothing about who asks */
        }
        status =
            ad_access_check(call->service->access, &call->headers, call->route,
                            &call->target, ad_clock_now_ns(), &call->pass, &call->error);
    }
    call->refused = status != AD_OK;
    return status;
}

/* ---- the reply ------------------------------------------------------------------------------- */

void ad_admit_answer_preflight(const struct ad_call *call, struct ad_reply *reply)
{
    reply->status = AD_OK;
    reply->no_content = true;
    reply->allow_methods = ad_route_allow(call->route);
    reply->allow_headers = ad_cors_headers(call->headers.requested_headers);
}

void ad_admit_mark(const struct ad_call *call, struct ad_reply *reply)
{
    const struct ad_cors *cors = ad_access_cors(call->service->access);
    reply->retry_after = call->pass.retry_after;
    if (ad_cors_is_on(cors)) {
        reply->allow_origin = ad_cors_allow(cors, call->headers.origin);
        reply->vary_origin = !cors->all;
    }
}

/* ---- what is told about it ------------------------------------------------------------------- */

struct lines {
    const char *name;
    const char *values[MAX_LINES];
    size_t n;
};

static enum MHD_Result note_line(void *context, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    struct lines *lines = context;
    (void)kind;
    if (strcasecmp(name, lines->name) != 0 || !value) {
        return MHD_YES;
    }
    if (lines->n == MAX_LINES) {
        lines->n--;
        memmove(lines->values, lines->values + 1, lines->n * sizeof lines->values[0]);
    }
    lines->values[lines->n++] = value;
    return MHD_YES;
}

/* Read what the proxy says; all lines of the header that is there, not the one that headers keeps. */
static void ask_proxy(const struct ad_call *call, struct ad_address *client, bool *known)
{
    struct lines lines = {.name =
                              call->headers.forwarded ? "Forwarded" : "X-Forwarded-For"};
    struct ad_address found;
    if (!call->headers.forwarded && !call->headers.forwarded_for) {
        return;
    }
    MHD_get_connection_values(call->connection, MHD_HEADER_KIND, note_line, &lines);
    if (ad_client_find(ad_access_proxies(call->service->access),
                       call->headers.forwarded ? AD_FORWARDED : AD_X_FORWARDED_FOR,
                       lines.values, lines.n, &found)) {
        *client = found;
        *known = true;
    }
}

void ad_admit_client(const struct ad_call *call, char text[AD_CLIENT_SIZE])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct ad_address client;
    bool known = ad_address_of(info ? info->client_addr : NULL, &client);
    if (ad_proxies_trust(ad_access_proxies(call->service->access),
                         known ? &client : NULL)) {
        ask_proxy(call, &client, &known);
    }
    if (known) {
        ad_address_text(&client, text);
    } else {
        snprintf(text, AD_CLIENT_SIZE, "unix");
    }
}

static void write_line(const struct ad_call *call, const struct ad_reply *reply)
{
    char client[AD_CLIENT_SIZE];
    char route[AD_ROUTE_TEXT_SIZE];
    if (!ad_log_enables(call->service->log, AD_LOG_INFO)) {
        return;
    }
    ad_admit_client(call, client);
    snprintf(route, sizeof route, "/%s", call->route->pattern);
    const struct ad_key *key = call->pass.key;
    const struct ad_log_field fields[] = {
        ad_log_text("request", call->id),
        ad_log_text("client", client),
        ad_log_text("method", call->verb),
        ad_log_text("route", route),
        ad_log_text("model", call->target.model),
        ad_log_number("status", ad_reply_number(reply)),
        ad_log_text("error", call->error.message),
        ad_log_text("key", key ? key->name : NULL),
    };
    size_t n_fields = sizeof fields / sizeof fields[0];
    ad_log_write(call->service->log, AD_LOG_INFO, "refused", fields,
                 key ? n_fields : n_fields - 1);
}

void ad_admit_conclude(const struct ad_call *call, const struct ad_reply *reply)
{
    struct ad_counts *counts = &call->service->operators.counts;
    if (call->error.status == AD_UNAUTHORIZED) {
        ad_counts_reject(counts, AD_REJECTED_UNAUTHORIZED);
    } else if (call->error.status == AD_FORBIDDEN) {
        ad_counts_reject(counts, AD_REJECTED_FORBIDDEN);
    } else if (call->error.status == AD_RATE_LIMITED) {
        ad_counts_reject(counts, AD_REJECTED_RATE);
    }
    write_line(call, reply);
}
