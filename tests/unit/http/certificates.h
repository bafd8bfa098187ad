/* certificates.h - keys and certificates for tests, made on the spot. Included by one source file of a
 * program. */
#ifndef TESTS_UNIT_HTTP_CERTIFICATES_H
#define TESTS_UNIT_HTTP_CERTIFICATES_H

#include <check.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A key and its certificate. */
struct certified {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
};

#define MUST(call) ck_assert_int_ge((call), 0)

/* Signed by issuer, or by itself (NULL), which makes it an authority. days may be negative: it has
 * expired. */
static inline struct certified make_certified(const char *name,
                                              const struct certified *issuer, int days)
{
    struct certified made;
    static unsigned char serial = 0;
    time_t now = time(NULL);
    serial++;
    MUST(gnutls_x509_privkey_init(&made.key));
    MUST(gnutls_x509_privkey_generate(
        made.key, GNUTLS_PK_ECDSA,
        (unsigned)GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    MUST(gnutls_x509_crt_init(&made.certificate));
    MUST(gnutls_x509_crt_set_version(made.certificate, 3));
    MUST(gnutls_x509_crt_set_serial(made.certificate, &serial, 1));
    MUST(gnutls_x509_crt_set_dn_by_oid(made.certificate, GNUTLS_OID_X520_COMMON_NAME, 0,
                                       name, (unsigned)strlen(name)));
    MUST(gnutls_x509_crt_set_activation_time(made.certificate, now - 40 * 86400));
    MUST(gnutls_x509_crt_set_expiration_time(made.certificate, now + days * 86400));
    MUST(gnutls_x509_crt_set_key(made.certificate, made.key));
    MUST(gnutls_x509_crt_set_basic_constraints(made.certificate, issuer == NULL, -1));
    MUST(gnutls_x509_crt_sign2(made.certificate,
                               issuer ? issuer->certificate : made.certificate,
                               issuer ? issuer->key : made.key, GNUTLS_DIG_SHA256, 0));
    return made;
}

static inline void free_certified(struct certified *made)
{
    gnutls_x509_crt_deinit(made->certificate);
    gnutls_x509_privkey_deinit(made->key);
}

static inline void write_text(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

/* As PEM; either path may be NULL. */
static inline void write_certified(const struct certified *made, const char *certificate,
                                   const char *key)
{
    gnutls_datum_t text;
    if (certificate) {
        MUST(gnutls_x509_crt_export2(made->certificate, GNUTLS_X509_FMT_PEM, &text));
        write_text(certificate, text.data, text.size);
        gnutls_free(text.data);
    }
    if (key) {
        MUST(gnutls_x509_privkey_export2(made->key, GNUTLS_X509_FMT_PEM, &text));
        write_text(key, text.data, text.size);
        gnutls_free(text.data);
    }
}

#endif
