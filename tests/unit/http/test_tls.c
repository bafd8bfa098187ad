/* Are certificates read and refused as they should be, clients known by theirs, and does a reload count
 * where it should and nowhere else? */
#include "http/tls.h"

#include "unit/http/certificates.h"
#include "unit/support.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char folder[64];
static char certificate_path[96], key_path[96], authority_path[96], other_path[96];
static struct certified authority, other_authority, server, other, client;
static struct ad_options options;

static void name_file(char path[96], const char *name)
{
    snprintf(path, 96, "%s/%s", folder, name);
}

static void set_up(void)
{
    static char version[] = "1.2";
    strcpy(folder, "/tmp/attentiond-tls.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    name_file(certificate_path, "certificate.pem");
    name_file(key_path, "key.pem");
    name_file(authority_path, "authority.pem");
    name_file(other_path, "other");
    authority = make_certified("authority", NULL, 10);
    other_authority = make_certified("other authority", NULL, 10);
    server = make_certified("server", &authority, 10);
    other = make_certified("other", &authority, 10);
    client = make_certified("client", &authority, 10);
    write_certified(&server, certificate_path, key_path);
    write_certified(&authority, authority_path, NULL);
    options = (struct ad_options){.tls_certificate = certificate_path,
                                  .tls_key = key_path,
                                  .tls_minimum_version = version};
}

static void tear_down(void)
{
    free_certified(&authority);
    free_certified(&other_authority);
    free_certified(&server);
    free_certified(&other);
    free_certified(&client);
    (void)unlink(certificate_path);
    (void)unlink(key_path);
    (void)unlink(authority_path);
    (void)unlink(other_path);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void refused(const char *text, const char *second_text)
{
    struct ad_tls *tls = NULL;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_tls_open(&options, &tls, &error), AD_INVALID);
    ck_assert_msg(strstr(error.message, text) && strstr(error.message, second_text), "%s",
                  error.message);
    ck_assert_ptr_null(tls);
}

START_TEST(wanted_or_not)
{
    struct ad_tls *tls = NULL;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_tls_open(&options, &tls, &error), AD_OK);
    ck_assert_ptr_nonnull(tls);
    ad_tls_free(tls);
    options.tls_certificate = options.tls_key = NULL;
    ck_assert_int_eq(ad_tls_open(&options, &tls, &error), AD_OK);
    ck_assert_ptr_null(tls);
    ad_tls_free(tls);
}
END_TEST

START_TEST(companions)
{
    options.tls_key = NULL;
    refused("--tls-certificate: needs --tls-key", "");
    options.tls_key = key_path;
    options.tls_certificate = NULL;
    refused("--tls-key: needs --tls-certificate", "");
    options.tls_key = NULL;
    options.tls_client_ca = authority_path;
    refused("--tls-client-ca: needs --tls-certificate", "");
}
END_TEST

START_TEST(bad_files)
{
    static char missing[] = "/nonexistent.pem";
    const struct {
        char **option;
        const char *name;
    } files[] = {{&options.tls_certificate, "--tls-certificate: "},
                 {&options.tls_key, "--tls-key: "},
                 {&options.tls_client_ca, "--tls-client-ca: "}};
    for (size_t i = 0; i < 3; i++) {
        char *good = *files[i].option;
        *files[i].option = missing;
        refused(files[i].name, "/nonexistent.pem: No such file");
        *files[i].option = folder;
        refused(files[i].name, "directory");
        *files[i].option = other_path;
        write_text(other_path, "", 0);
        refused(files[i].name, other_path);
        write_text(other_path, "no PEM at all\n", 14);
        refused(files[i].name, other_path);
        *files[i].option = good;
    }
}
END_TEST

START_TEST(mixed_up)
{
    write_certified(&other, NULL, key_path);
    refused("--tls-key: ", "is not the key of the certificate in");
    options.tls_certificate = key_path;
    refused("--tls-certificate: ", key_path);
    options.tls_certificate = certificate_path;
    options.tls_key = certificate_path;
    refused("--tls-key: ", certificate_path);
}
END_TEST

START_TEST(huge_file)
{
    enum { SIZE = 5 << 20 };
    char *bytes = calloc(1, SIZE);
    write_text(other_path, bytes, SIZE);
    free(bytes);
    options.tls_key = other_path;
    refused("--tls-key: ", "larger than");
}
END_TEST

/* ---- handshakes ----------------------------------------------------------------------------- */

/* A client and the daemon's side of its connection. */
struct talk {
    int ends[2];
    gnutls_session_t server, client;
    gnutls_certificate_credentials_t unused, own;
    struct ad_tls_peer peer;
};

static void begin(struct talk *talk, struct ad_tls *tls, const struct certified *who,
                  const char *client_priorities)
{
    *talk = (struct talk){.server = NULL};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, talk->ends), 0);
    MUST(gnutls_init(&talk->server, GNUTLS_SERVER | GNUTLS_NONBLOCK));
    MUST(gnutls_priority_set_direct(talk->server, ad_tls_priorities(&options), NULL));
    /* as the HTTP library has it: credentials that hold nothing, replaced by ours */
    MUST(gnutls_certificate_allocate_credentials(&talk->unused));
    MUST(gnutls_credentials_set(talk->server, GNUTLS_CRD_CERTIFICATE, talk->unused));
    gnutls_transport_set_int(talk->server, talk->ends[0]);
    ck_assert(ad_tls_attach(tls, talk->server, &talk->peer));
    /* a certificate is sent even if the server names other authorities */
    MUST(gnutls_init(&talk->client,
                     GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_FORCE_CLIENT_CERT));
    MUST(gnutls_priority_set_direct(talk->client, client_priorities, NULL));
    MUST(gnutls_certificate_allocate_credentials(&talk->own));
    if (who) {
        gnutls_x509_crt_t chain[] = {who->certificate};
        MUST(gnutls_certificate_set_x509_key(talk->own, chain, 1, who->key));
    }
    MUST(gnutls_credentials_set(talk->client, GNUTLS_CRD_CERTIFICATE, talk->own));
    gnutls_transport_set_int(talk->client, talk->ends[1]);
}

static bool shake(struct talk *talk)
{
    int ours = GNUTLS_E_AGAIN;
    int theirs = GNUTLS_E_AGAIN;
    for (int i = 0; i < 1000 && (ours < 0 || theirs < 0); i++) {
        ours = ours < 0 ? gnutls_handshake(talk->server) : ours;
        theirs = theirs < 0 ? gnutls_handshake(talk->client) : theirs;
        if ((ours < 0 && gnutls_error_is_fatal(ours)) ||
            (theirs < 0 && gnutls_error_is_fatal(theirs))) {
            return false;
        }
    }
    return ours == 0 && theirs == 0;
}

static void end(struct talk *talk)
{
    gnutls_deinit(talk->client);
    gnutls_deinit(talk->server);
    ad_tls_detach(&talk->peer);
    gnutls_certificate_free_credentials(talk->unused);
    gnutls_certificate_free_credentials(talk->own);
    close(talk->ends[0]);
    close(talk->ends[1]);
}

static struct ad_tls *open_tls(void)
{
    struct ad_tls *tls = NULL;
    struct ad_error error = {.status = AD_OK};
    ck_assert_msg(ad_tls_open(&options, &tls, &error) == AD_OK, "%s", error.message);
    return tls;
}

/* The name on the certificate that the client was shown. */
static void expect_server(const struct talk *talk, const struct certified *expected)
{
    unsigned n = 0;
    gnutls_datum_t wanted;
    const gnutls_datum_t *shown = gnutls_certificate_get_peers(talk->client, &n);
    ck_assert_uint_ge(n, 1);
    MUST(gnutls_x509_crt_export2(expected->certificate, GNUTLS_X509_FMT_DER, &wanted));
    ck_assert_uint_eq(shown[0].size, wanted.size);
    ck_assert_mem_eq(shown[0].data, wanted.data, wanted.size);
    gnutls_free(wanted.data);
}

START_TEST(versions)
{
    static char newest[] = "1.3";
    static const struct {
        bool newest_only;
        const char *client;
        bool ok;
    } cases[] = {{false, "NORMAL:-VERS-ALL:+VERS-TLS1.3", true},
                 {false, "NORMAL:-VERS-ALL:+VERS-TLS1.2", true},
                 {false, "NORMAL:-VERS-ALL:+VERS-TLS1.1", false},
                 {false, "NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-CBC", false},
                 {false, "NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+RSA", false},
                 {true, "NORMAL:-VERS-ALL:+VERS-TLS1.3", true},
                 {true, "NORMAL:-VERS-ALL:+VERS-TLS1.2", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct talk talk;
        if (cases[i].newest_only) {
            options.tls_minimum_version = newest;
        }
        struct ad_tls *tls = open_tls();
        begin(&talk, tls, NULL, cases[i].client);
        ck_assert_msg(shake(&talk) == cases[i].ok, "case %zu", i);
        end(&talk);
        ad_tls_free(tls);
    }
}
END_TEST

static void check(struct ad_tls *tls, struct talk *talk, const char *refusal)
{
    struct ad_error error = {.status = AD_OK};
    enum ad_status expected = refusal ? AD_UNAUTHORIZED : AD_OK;
    ck_assert_msg(ad_tls_check_peer(tls, &talk->peer, &error) == expected, "%s",
                  error.message);
    ck_assert_msg(!refusal || strstr(error.message, refusal), "%s", error.message);
}

START_TEST(clients)
{
    struct certified stranger = make_certified("stranger", &other_authority, 10);
    struct certified late = make_certified("late", &authority, -1);
    struct certified alone = make_certified("alone", NULL, 10);
    const struct {
        const struct certified *who;
        const char *refusal;
    } cases[] = {{&client, NULL},
                 {NULL, "a client certificate is required"},
                 {&stranger, "client certificate: "},
                 {&late, "expired"},
                 {&alone, "client certificate: "}};
    static const char *const spoken[] = {"NORMAL:-VERS-ALL:+VERS-TLS1.3",
                                         "NORMAL:-VERS-ALL:+VERS-TLS1.2"};
    options.tls_client_ca = authority_path;
    struct ad_tls *tls = open_tls();
    for (size_t i = 0; i < 10; i++) {
        struct talk talk;
        begin(&talk, tls, cases[i / 2].who, spoken[i % 2]);
        ck_assert(shake(&talk));
        check(tls, &talk, cases[i / 2].refusal);
        check(tls, &talk, cases[i / 2].refusal); /* the second time as the first */
        end(&talk);
    }
    ad_tls_free(tls);
    free_certified(&stranger);
    free_certified(&late);
    free_certified(&alone);
}
END_TEST

START_TEST(nobody_asked)
{
    struct talk talk;
    struct ad_tls *tls = open_tls();
    begin(&talk, tls, NULL, "NORMAL");
    ck_assert(shake(&talk));
    check(tls, &talk, NULL);
    end(&talk);
    ad_tls_free(tls);
}
END_TEST

/* ---- reload --------------------------------------------------------------------------------- */

START_TEST(new_certificate)
{
    struct talk before, between, after;
    struct ad_error error = {.status = AD_OK};
    struct ad_tls *tls = open_tls();
    begin(&before, tls, NULL, "NORMAL");
    begin(&between, tls, NULL, "NORMAL:-VERS-ALL:+VERS-TLS1.2");
    ck_assert(shake(&before));
    (void)gnutls_handshake(between.client);
    (void)gnutls_handshake(between.server);
    write_certified(&other, certificate_path, key_path);
    ck_assert_int_eq(ad_tls_reload(tls, &error), AD_OK);
    begin(&after, tls, NULL, "NORMAL");
    ck_assert(shake(&between));
    ck_assert(shake(&after));
    expect_server(&before, &server);
    expect_server(&between, &server);
    expect_server(&after, &other);
    char byte = 0;
    MUST(gnutls_record_send(before.client, "x", 1));
    ck_assert_int_eq(gnutls_record_recv(before.server, &byte, 1), 1);
    end(&before);
    end(&between);
    end(&after);
    ad_tls_free(tls);
}
END_TEST

START_TEST(bad_reload)
{
    struct talk talk;
    struct ad_error error = {.status = AD_OK};
    struct ad_tls *tls = open_tls();
    write_certified(&other, NULL, key_path);
    ck_assert_int_eq(ad_tls_reload(tls, &error), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "is not the key"));
    ad_error_clear(&error);
    ck_assert_int_eq(unlink(key_path), 0);
    ck_assert_int_eq(ad_tls_reload(tls, &error), AD_INVALID);
    begin(&talk, tls, NULL, "NORMAL");
    ck_assert(shake(&talk));
    expect_server(&talk, &server);
    end(&talk);
    ad_tls_free(tls);
}
END_TEST

/* Who is struck off the list is out at once, and who is put on it is in. */
START_TEST(new_authorities)
{
    struct talk talk;
    struct ad_error error = {.status = AD_OK};
    options.tls_client_ca = authority_path;
    struct ad_tls *tls = open_tls();
    begin(&talk, tls, &client, "NORMAL");
    ck_assert(shake(&talk));
    check(tls, &talk, NULL);
    write_certified(&other_authority, authority_path, NULL);
    ck_assert_int_eq(ad_tls_reload(tls, &error), AD_OK);
    check(tls, &talk, "client certificate: ");
    write_certified(&authority, authority_path, NULL);
    ck_assert_int_eq(ad_tls_reload(tls, &error), AD_OK);
    check(tls, &talk, NULL);
    end(&talk);
    ad_tls_free(tls);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls");
    TCase *tcase = tcase_create("tls");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, wanted_or_not);
    tcase_add_test(tcase, companions);
    tcase_add_test(tcase, bad_files);
    tcase_add_test(tcase, mixed_up);
    tcase_add_test(tcase, huge_file);
    tcase_add_test(tcase, versions);
    tcase_add_test(tcase, clients);
    tcase_add_test(tcase, nobody_asked);
    tcase_add_test(tcase, new_certificate);
    tcase_add_test(tcase, bad_reload);
    tcase_add_test(tcase, new_authorities);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
