/* tls.h - the daemon's certificate, and those of its clients. */
#ifndef AD_HTTP_TLS_H
#define AD_HTTP_TLS_H

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"

#include <stdbool.h>
#include <stdint.h>

struct ad_tls;
struct ad_tls_identity;

/* What a connection holds of it. Owner: the connection's I/O thread. {0} is none. */
struct ad_tls_peer {
    void *session;                    /* gnutls_session_t; NULL: no TLS */
    struct ad_tls_identity *identity; /* that the session began with; counted */
    uint64_t
        checked; /* the generation of authorities that certified was found by; 0: none */
    bool certified;
};

/* Read the files that the options name. *tls is NULL when they want none. AD_INVALID: an option
 * lacks its companion, a file cannot be read or is not what it should be; the message names option,
 * file and reason. */
enum ad_status ad_tls_open(const struct ad_options *options, struct ad_tls **tls,
                           struct ad_error *error) AD_MUST_CHECK;

/* Read the files again, for new connections; the authorities count for open ones too. After a
 * failure all is as before. Any thread. */
enum ad_status ad_tls_reload(struct ad_tls *tls, struct ad_error *error) AD_MUST_CHECK;

/* Log whose certificate is in use and until when, and warn when that is over. */
void ad_tls_log(struct ad_tls *tls, const struct ad_log *log);

void ad_tls_free(struct ad_tls *tls); /* all are detached; NULL is fine */

/* Versions and ciphers, as GnuTLS writes them. Static. */
const char *ad_tls_priorities(const struct ad_options *options);

/* Give a session (gnutls_session_t) that begins the certificate of now. False: it cannot begin. */
bool ad_tls_attach(struct ad_tls *tls, void *session, struct ad_tls_peer *peer);

/* The session is over. */
void ad_tls_detach(struct ad_tls_peer *peer);

/* Do the options want clients to have a certificate, and has this one a good one? After the
 * handshake. AD_UNAUTHORIZED: it has none, or the message says what is wrong with it. */
enum ad_status ad_tls_check_peer(struct ad_tls *tls, struct ad_tls_peer *peer,
                                 struct ad_error *error) AD_MUST_CHECK;

#endif
