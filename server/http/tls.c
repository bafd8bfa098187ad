/* tls.c - the daemon's certificate, and those of its clients.
 *
 * Owner: the server. What was read from the files is one counted, immutable identity; a reload puts
 * another in its place. A session keeps the identity that it began with until it is over, since the
 * handshake uses it. Clients are checked against the authorities of now, so that one which was
 * struck off the list is out at once, on connections that are open too. */
#include "http/tls.h"
#include "base/clock.h"
#include "base/open.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)4 << 20)
#define MAX_CHAIN 16 /* certificates that a client may send */
#define NS_PER_S INT64_C(1000000000)
#define MS_PER_S 1000

#define COMMON_PRIORITIES                                                     \
    ":-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:" \
    "+CHACHA20-POLY1305:-MAC-ALL:+AEAD:-SIGN-RSA-SHA1:-SIGN-ECDSA-SHA1"

struct ad_tls_identity {
    atomic_size_t n_users;
    uint64_t generation; /* immutable, as are all that follow */
    gnutls_certificate_credentials_t credentials;
    gnutls_x509_trust_list_t authorities; /* NULL: clients need no certificate */
    char subject[256];
    time_t expires;
};

struct ad_tls {
    const struct ad_options *options; /* immutable */
    pthread_mutex_t lock;
    struct ad_tls_identity *identity; /* guarded by lock */
    atomic_uint_fast64_t generation;  /* of it; from 1 on */
};

/* ---- an identity ---------------------------------------------------------------------------- */

static void release(struct ad_tls_identity *identity)
{
    if (!identity || atomic_fetch_sub(&identity->n_users, 1) > 1) {
        return;
    }
    if (identity->credentials) {
        gnutls_certificate_free_credentials(identity->credentials);
    }
    if (identity->authorities) {
        gnutls_x509_trust_list_deinit(identity->authorities, 1);
    }
    free(identity);
}

static struct ad_tls_identity *acquire(struct ad_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    struct ad_tls_identity *identity = tls->identity;
    atomic_fetch_add(&identity->n_users, 1);
    pthread_mutex_unlock(&tls->lock);
    return identity;
}

static void wipe(gnutls_datum_t *file)
{
    if (file->data) {
        explicit_bzero(file->data, file->size);
        free(file->data);
    }
    *file = (gnutls_datum_t){NULL, 0};
}

/* The bytes of a file; wipe them. */
static enum ad_status read_file(const char *option, const char *path,
                                gnutls_datum_t *file, struct ad_error *error)
{
    *file = (gnutls_datum_t){NULL, 0};
    FILE *stream = ad_open_stream(path);
    if (!stream) {
        return ad_fail(error, AD_INVALID, "%s: %s: %s", option, path, strerror(errno));
    }
    (void)setvbuf(stream, NULL, _IONBF, 0); /* no copy that is not wiped */
    unsigned char *bytes = malloc(MAX_FILE);
    size_t n = bytes ? fread(bytes, 1, MAX_FILE, stream) : 0;
    int code = ferror(stream) ? errno : 0;
    (void)fclose(stream);
    file->data = bytes;
    file->size = (unsigned)n;
    if (bytes && code == 0 && n < MAX_FILE) {
        return AD_OK;
    }
    wipe(file);
    if (!bytes) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    return code ? ad_fail(error, AD_INVALID, "%s: %s: %s", option, path, strerror(code))
                : ad_fail(error, AD_INVALID, "%s: %s: larger than %zu bytes", option,
                          path, MAX_FILE);
}

static enum ad_status refuse(const char *option, const char *path, int code,
                             struct ad_error *error)
{
    return ad_fail(error, code == GNUTLS_E_MEMORY_ERROR ? AD_INTERNAL : AD_INVALID,
                   "%s: %s: %s", option, path, gnutls_strerror(code));
}

/* Whose certificate it is, for the log. */
static enum ad_status describe(struct ad_tls_identity *identity, const char *path,
                               const gnutls_datum_t *file, struct ad_error *error)
{
    gnutls_x509_crt_t *chain = NULL;
    unsigned n = 0;
    size_t size = sizeof identity->subject;
    int code = gnutls_x509_crt_list_import2(&chain, &n, file, GNUTLS_X509_FMT_PEM, 0);
    if (code < 0) {
        return refuse("--tls-certificate", path, code, error);
    }
    if (gnutls_x509_crt_get_dn(chain[0], identity->subject, &size) < 0) {
        identity->subject[0] = '\0';
    }
    identity->expires = gnutls_x509_crt_get_expiration_time(chain[0]);
    for (unsigned i = 0; i < n; i++) {
        gnutls_x509_crt_deinit(chain[i]);
    }
    gnutls_free(chain);
    return AD_OK;
}

static enum ad_status check_key(const char *path, const gnutls_datum_t *file,
                                struct ad_error *error)
{
    gnutls_x509_privkey_t key = NULL;
    int code = gnutls_x509_privkey_init(&key);
    if (code == 0) {
        code = gnutls_x509_privkey_import2(key, file, GNUTLS_X509_FMT_PEM, NULL, 0);
        gnutls_x509_privkey_deinit(key);
    }
    return code < 0 ? refuse("--tls-key", path, code, error) : AD_OK;
}

static enum ad_status read_certificate(const struct ad_options *options,
                                       struct ad_tls_identity *identity,
                                       struct ad_error *error)
{
    gnutls_datum_t certificate = {NULL, 0};
    gnutls_datum_t key = {NULL, 0};
    int code = 0;
    enum ad_status status =
        read_file("--tls-certificate", options->tls_certificate, &certificate, error);
    if (status) {
        goto out;
    }
    status = describe(identity, options->tls_certificate, &certificate, error);
    if (status) {
        goto out;
    }
    status = read_file("--tls-key", options->tls_key, &key, error);
    if (status) {
        goto out;
    }
    status = check_key(options->tls_key, &key, error);
    if (status) {
        goto out;
    }
    code = gnutls_certificate_set_x509_key_mem2(identity->credentials, &certificate, &key,
                                                GNUTLS_X509_FMT_PEM, NULL, 0);
    if (code == GNUTLS_E_CERTIFICATE_KEY_MISMATCH) {
        status = ad_fail(error, AD_INVALID,
                         "--tls-key: %s is not the key of the certificate in %s",
                         options->tls_key, options->tls_certificate);
    } else if (code < 0) {
        status = refuse("--tls-certificate", options->tls_certificate, code, error);
    }
out:
    wipe(&key);
    wipe(&certificate);
    return status;
}

/* The credentials get them too: their names are sent to clients that have several certificates. */
static enum ad_status read_authorities(const struct ad_options *options,
                                       struct ad_tls_identity *identity,
                                       struct ad_error *error)
{
    gnutls_datum_t file;
    const char *path = options->tls_client_ca;
    enum ad_status status = read_file("--tls-client-ca", path, &file, error);
    if (status) {
        return status;
    }
    int code = gnutls_x509_trust_list_init(&identity->authorities, 0);
    if (code == 0) {
        code = gnutls_x509_trust_list_add_trust_mem(identity->authorities, &file, NULL,
                                                    GNUTLS_X509_FMT_PEM, 0, 0);
    }
    if (code > 0) {
        code = gnutls_certificate_set_x509_trust_mem(identity->credentials, &file,
                                                     GNUTLS_X509_FMT_PEM);
    }
    if (code <= 0) {
        status = code < 0 ? refuse("--tls-client-ca", path, code, error)
                          : ad_fail(error, AD_INVALID,
                                    "--tls-client-ca: %s: no certificate in it", path);
    }
    wipe(&file);
    return status;
}

static enum ad_status read_identity(const struct ad_options *options, uint64_t generation,
                                    struct ad_tls_identity **identity,
                                    struct ad_error *error)
{
    struct ad_tls_identity *read = calloc(1, sizeof *read);
    if (!read) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    atomic_init(&read->n_users, 1);
    read->generation = generation;
    enum ad_status status = AD_OK;
    if (gnutls_certificate_allocate_credentials(&read->credentials) != 0) {
        status = ad_fail(error, AD_INTERNAL, "out of memory");
    }
    if (!status) {
        status = read_certificate(options, read, error);
    }
    if (!status && options->tls_client_ca) {
        status = read_authorities(options, read, error);
    }
    if (status) {
        release(read);
        return status;
    }
    *identity = read;
    return AD_OK;
}

/* ---- start, reload, stop -------------------------------------------------------------------- */

static enum ad_status check_options(const struct ad_options *options,
                                    struct ad_error *error)
{
    if (options->tls_certificate && !options->tls_key) {
        return ad_fail(error, AD_INVALID, "--tls-certificate: needs --tls-key");
    }
    if (options->tls_key && !options->tls_certificate) {
        return ad_fail(error, AD_INVALID, "--tls-key: needs --tls-certificate");
    }
    if (options->tls_client_ca && !options->tls_certificate) {
        return ad_fail(error, AD_INVALID, "--tls-client-ca: needs --tls-certificate");
    }
    return AD_OK;
}

enum ad_status ad_tls_open(const struct ad_options *options, struct ad_tls **tls,
                           struct ad_error *error)
{
    *tls = NULL;
    enum ad_status status = check_options(options, error);
    if (status || !options->tls_certificate) {
        return status;
    }
    struct ad_tls *opened = calloc(1, sizeof *opened);
    if (!opened) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    opened->options = options;
    atomic_init(&opened->generation, 1);
    status = read_identity(options, 1, &opened->identity, error);
    if (status) {
        free(opened);
        return status;
    }
    pthread_mutex_init(&opened->lock, NULL);
    *tls = opened;
    return AD_OK;
}

enum ad_status ad_tls_reload(struct ad_tls *tls, struct ad_error *error)
{
    struct ad_tls_identity *fresh = NULL;
    uint64_t generation = atomic_load(&tls->generation) + 1;
    enum ad_status status = read_identity(tls->options, generation, &fresh, error);
    if (status) {
        return status;
    }
    pthread_mutex_lock(&tls->lock);
    struct ad_tls_identity *old = tls->identity;
    tls->identity = fresh;
    atomic_store(&tls->generation, generation);
    pthread_mutex_unlock(&tls->lock);
    release(old);
    return AD_OK;
}

void ad_tls_log(struct ad_tls *tls, const struct ad_log *log)
{
    struct ad_tls_identity *identity = acquire(tls);
    char expires[AD_CLOCK_UTC_SIZE];
    int64_t expires_ms = (int64_t)identity->expires * MS_PER_S;
    bool is_over = expires_ms < ad_clock_unix_ms();
    ad_clock_utc(expires_ms, expires);
    const struct ad_log_field fields[] = {ad_log_text("subject", identity->subject),
                                          ad_log_text("expires", expires)};
    ad_log_write(log, is_over ? AD_LOG_WARNING : AD_LOG_INFO,
                 is_over ? "certificate has expired" : "certificate", fields,
                 sizeof fields / sizeof fields[0]);
    release(identity);
}

void ad_tls_free(struct ad_tls *tls)
{
    if (!tls) {
        return;
    }
    release(tls->identity);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

const char *ad_tls_priorities(const struct ad_options *options)
{
    return strcmp(options->tls_minimum_version, "1.3") == 0
               ? "NORMAL:-VERS-ALL:+VERS-TLS1.3" COMMON_PRIORITIES
               : "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" COMMON_PRIORITIES;
}

/* ---- sessions ------------------------------------------------------------------------------- */

bool ad_tls_attach(struct ad_tls *tls, void *session, struct ad_tls_peer *peer)
{
    *peer = (struct ad_tls_peer){.session = session, .identity = acquire(tls)};
    if (peer->identity->authorities) {
        /* Asked for, not required: health is for everybody. */
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
    }
    return gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE,
                                  peer->identity->credentials) == 0;
}

void ad_tls_detach(struct ad_tls_peer *peer)
{
    release(peer->identity);
    *peer = (struct ad_tls_peer){.session = NULL};
}

/* Read what the client sent; the number of certificates, 0 when one of them is none. */
static unsigned import_chain(const gnutls_datum_t *sent, unsigned n_sent,
                             gnutls_x509_crt_t chain[MAX_CHAIN])
{
    unsigned n = 0;
    bool ok = n_sent <= MAX_CHAIN;
    while (ok && n < n_sent && gnutls_x509_crt_init(&chain[n]) == 0) {
        ok = gnutls_x509_crt_import(chain[n], &sent[n], GNUTLS_X509_FMT_DER) == 0;
        n++;
    }
    if (ok && n == n_sent) {
        return n;
    }
    while (n > 0) {
        gnutls_x509_crt_deinit(chain[--n]);
    }
    return 0;
}

static enum ad_status fail_certificate(unsigned flaws, struct ad_error *error)
{
    gnutls_datum_t text = {NULL, 0};
    if (gnutls_certificate_verification_status_print(flaws, GNUTLS_CRT_X509, &text, 0) !=
        0) {
        return ad_fail(error, AD_UNAUTHORIZED, "the client certificate is not trusted");
    }
    size_t n = text.size;
    while (n > 0 && (text.data[n - 1] == '\0' || text.data[n - 1] == ' ')) {
        n--;
    }
    (void)ad_fail(error, AD_UNAUTHORIZED, "client certificate: %.*s", (int)n, text.data);
    gnutls_free(text.data);
    return AD_UNAUTHORIZED;
}

static enum ad_status verify(const struct ad_tls_identity *identity,
                             gnutls_session_t session, struct ad_error *error)
{
    gnutls_x509_crt_t chain[MAX_CHAIN];
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT,
                                     .size = sizeof GNUTLS_KP_TLS_WWW_CLIENT - 1};
    unsigned flaws = 0;
    unsigned n_sent = 0;
    const gnutls_datum_t *sent = gnutls_certificate_get_peers(session, &n_sent);
    if (!sent || n_sent == 0) {
        return ad_fail(error, AD_UNAUTHORIZED, "a client certificate is required");
    }
    unsigned n = import_chain(sent, n_sent, chain);
    if (n == 0) {
        return ad_fail(error, AD_UNAUTHORIZED, "the client certificate cannot be read");
    }
    int code = gnutls_x509_trust_list_verify_crt2(identity->authorities, chain, n,
                                                  &purpose, 1, 0, &flaws, NULL);
    for (unsigned i = 0; i < n; i++) {
        gnutls_x509_crt_deinit(chain[i]);
    }
    if (code < 0) {
        return ad_fail(error, AD_UNAUTHORIZED, "client certificate: %s",
                       gnutls_strerror(code));
    }
    return flaws == 0 ? AD_OK : fail_certificate(flaws, error);
}

enum ad_status ad_tls_check_peer(struct ad_tls *tls, struct ad_tls_peer *peer,
                                 struct ad_error *error)
{
    if (!tls->options->tls_client_ca) {
        return AD_OK;
    }
    if (peer->certified &&
        peer->checked == atomic_load_explicit(&tls->generation, memory_order_relaxed)) {
        return AD_OK;
    }
    struct ad_tls_identity *identity = acquire(tls);
    enum ad_status status = verify(identity, peer->session, error);
    peer->certified = status == AD_OK;
    peer->checked = identity->generation;
    release(identity);
    return status;
}
