/* Which peers are trusted, and whose address is believed behind them. */
#include "http/client.h"

#include "unit/support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static struct ad_address address_of(const char *text)
{
    struct ad_address address;
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        ck_assert(ad_address_of((const struct sockaddr *)&in, &address));
    } else {
        ck_assert_int_eq(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
        ck_assert(ad_address_of((const struct sockaddr *)&in6, &address));
    }
    return address;
}

/* ---- the option ------------------------------------------------------------------------------ */

static const struct {
    const char *list;
    const char *address; /* NULL: a unix socket */
    bool trusted;
} trusts[] = {
    {NULL, "127.0.0.1", false},
    {NULL, NULL, false},
    {"", "127.0.0.1", false},
    {" , ", NULL, false},
    {"127.0.0.1", "127.0.0.1", true},
    {"127.0.0.1", "127.0.0.2", false},
    {"127.0.0.1", "::ffff:127.0.0.1", true},
    {"::ffff:127.0.0.1", "127.0.0.1", true},
    {"127.0.0.1", NULL, false},
    {"127.0.0.1", "::1", false},
    {"127.0.0.1, ::1", "::1", true},
    {"10.0.0.0/8", "10.255.255.255", true},
    {"10.0.0.0/8", "11.0.0.0", false},
    {"10.0.0.0/8", "9.255.255.255", false},
    {"::ffff:10.0.0.0/104", "10.1.2.3", true},
    {"192.168.4.0/22", "192.168.7.255", true},
    {"192.168.4.0/22", "192.168.8.0", false},
    {"192.0.2.7/32", "192.0.2.7", true},
    {"192.0.2.7/32", "192.0.2.6", false},
    {"192.0.2.6/31", "192.0.2.7", true},
    {"0.0.0.0/0", "203.0.113.9", true},
    {"0.0.0.0/0", "::1", false},
    {"::/0", "::1", true},
    {"::/0", "203.0.113.9", false},
    {"2001:db8::/32", "2001:db8:ffff::1", true},
    {"2001:db8::/32", "2001:db9::1", false},
    {"2001:db8::/33", "2001:db8:8000::", false},
    {"fe80::1/128", "fe80::1", true},
    {"fe80::1/128", "fe80::2", false},
    {"unix", NULL, true},
    {"unix", "127.0.0.1", false},
    {"10.0.0.0/8,unix", NULL, true},
};

START_TEST(trust)
{
    struct ad_proxies proxies;
    struct ad_error error = {.status = AD_OK};
    ck_assert_msg(ad_proxies_parse(trusts[_i].list, &proxies, &error) == AD_OK, "%s",
                  error.message);
    struct ad_address address = {{0}};
    if (trusts[_i].address) {
        address = address_of(trusts[_i].address);
    }
    ck_assert_int_eq(ad_proxies_trust(&proxies, trusts[_i].address ? &address : NULL),
                     trusts[_i].trusted);
    ad_proxies_reset(&proxies);
    ck_assert(!ad_proxies_trust(&proxies, trusts[_i].address ? &address : NULL));
}
END_TEST

static const struct {
    const char *list;
    const char *said;
} bad_lists[] = {
    {"localhost", "'localhost'"},
    {"10.0.0.1,proxy.example", "'proxy.example'"},
    {"10.0.0.0/33", "'10.0.0.0/33'"},
    {"10.0.0.0/", "'10.0.0.0/'"},
    {"10.0.0.0/-1", "'10.0.0.0/-1'"},
    {"10.0.0.0/08", "'10.0.0.0/08'"},
    {"10.0.0.0/8/8", "'10.0.0.0/8/8'"},
    {"10.0.0.0/255.0.0.0", "'10.0.0.0/255.0.0.0'"},
    {"10.0.0", "'10.0.0'"},
    {"10.0.0.256", "'10.0.0.256'"},
    {"010.0.0.1", "'010.0.0.1'"},
    {"10.0.0.1:80", "'10.0.0.1:80'"},
    {"[::1]", "'[::1]'"},
    {"::1/129", "'::1/129'"},
    {"::1/4294967297", "'::1/4294967297'"},
    {"fe80::1%eth0", "'fe80::1%eth0'"},
    {"/8", "'/8'"},
    {"unix:/run/x", "'unix:/run/x'"},
    {"10.0.0.1/8", "the network is 10.0.0.0/8"},
    {"192.168.5.0/22", "the network is 192.168.4.0/22"},
    {"2001:db8::1/64", "the network is 2001:db8::/64"},
    {"::ffff:10.0.0.1/104", "the network is 10.0.0.0/8"},
    {"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000", "0000:0000"},
};

START_TEST(bad)
{
    struct ad_proxies proxies;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_proxies_parse(bad_lists[_i].list, &proxies, &error), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "--trusted-proxies: "));
    ck_assert_msg(strstr(error.message, bad_lists[_i].said) != NULL, "%s", error.message);
    ck_assert_uint_eq(proxies.n, 0);
    ck_assert_ptr_null(proxies.networks);
}
END_TEST

START_TEST(texts)
{
    static const struct {
        const char *given, *text;
    } addresses[] = {{"192.0.2.1", "192.0.2.1"},
                     {"::ffff:192.0.2.1", "192.0.2.1"},
                     {"::192.0.2.1", "::192.0.2.1"},
                     {"2001:DB8:0::1", "2001:db8::1"},
                     {"fe80:1111:2222:3333:4444:5555:6666:7777",
                      "fe80:1111:2222:3333:4444:5555:6666:7777"}};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        char text[AD_CLIENT_SIZE];
        const struct ad_address address = address_of(addresses[i].given);
        ad_address_text(&address, text);
        ck_assert_str_eq(text, addresses[i].text);
    }
    struct ad_address address;
    const struct sockaddr_un un = {.sun_family = AF_UNIX};
    ck_assert(!ad_address_of((const struct sockaddr *)&un, &address));
    ck_assert(!ad_address_of(NULL, &address));
}
END_TEST

/* ---- the headers ----------------------------------------------------------------------------- */

#define PROXIES "10.0.0.0/8, 2001:db8:1::/48"
#define MAX_LINES 3

static const struct {
    const char *lines[MAX_LINES]; /* in the order in which they came */
    const char *client;           /* NULL: nothing is found */
} lists[] = {
    {{"203.0.113.9"}, "203.0.113.9"},
    {{"203.0.113.9:4711"}, "203.0.113.9"},
    {{"2001:db8:2::7"}, "2001:db8:2::7"},
    {{"[2001:db8:2::7]"}, "2001:db8:2::7"},
    {{"[2001:db8:2::7]:4711"}, "2001:db8:2::7"},
    {{"::ffff:203.0.113.9"}, "203.0.113.9"},
    {{"198.51.100.1, 203.0.113.9"}, "203.0.113.9"},
    {{"198.51.100.1,203.0.113.9,10.1.1.1,10.2.2.2"}, "203.0.113.9"},
    {{"198.51.100.1, 203.0.113.9 , ::ffff:10.1.1.1 ,2001:db8:1::1"}, "203.0.113.9"},
    {{"10.1.1.1, 10.2.2.2"}, "10.1.1.1"},
    {{"198.51.100.1", "203.0.113.9", "10.1.1.1"}, "203.0.113.9"},
    {{"198.51.100.1", "10.3.3.3, 10.4.4.4", "10.1.1.1"}, "198.51.100.1"},
    {{"203.0.113.9, ,, 10.1.1.1,", "", " "}, "203.0.113.9"},
    {{"203.0.113.9, unknown, 10.1.1.1"}, "10.1.1.1"},
    {{"203.0.113.9, 10.1.1.1:99999999, 10.2.2.2"}, "10.2.2.2"},
    {{"203.0.113.9", "nonsense", "10.2.2.2"}, "10.2.2.2"},
    {{"203.0.113.9, nonsense"}, NULL},
    {{""}, NULL},
    {{","}, NULL},
    {{"unknown"}, NULL},
    {{"203.0.113.9:"}, NULL},
    {{"203.0.113.9:x"}, NULL},
    {{"203.0.113.256"}, NULL},
    {{"0203.0.113.9"}, NULL},
    {{"[203.0.113.9]"}, NULL},
    {{"[::1"}, NULL},
    {{"::1]"}, NULL},
    {{"[]"}, NULL},
    {{"["}, NULL},
    {{"]"}, NULL},
    {{":"}, NULL},
    {{"[::1]80"}, NULL},
    {{"[::1]:"}, NULL},
    {{"\"203.0.113.9\""}, NULL},
    {{"203.0.113.9 198.51.100.1"}, NULL},
    {{"203.0.113.9\nforged"}, NULL},
};

static const struct {
    const char *lines[MAX_LINES];
    const char *client;
} forwards[] = {
    {{"for=203.0.113.9"}, "203.0.113.9"},
    {{"For=\"203.0.113.9:4711\""}, "203.0.113.9"},
    {{"for=\"[2001:db8:2::7]\""}, "2001:db8:2::7"},
    {{"for=\"[2001:db8:2::7]:4711\";proto=https"}, "2001:db8:2::7"},
    {{"by=10.0.0.1;for=203.0.113.9;host=example.org;proto=http"}, "203.0.113.9"},
    {{"by=10.0.0.1; for=203.0.113.9 ;proto=http"}, "203.0.113.9"},
    {{"for=198.51.100.1, for=203.0.113.9;by=10.0.0.3, for=10.1.1.1"}, "203.0.113.9"},
    {{"for=198.51.100.1", "for=203.0.113.9", "for=10.1.1.1"}, "203.0.113.9"},
    {{"for=10.1.1.1, for=10.2.2.2"}, "10.1.1.1"},
    {{"for=203.0.113.9, for=unknown, for=10.1.1.1"}, "10.1.1.1"},
    {{"for=203.0.113.9, for=_hidden, for=10.1.1.1"}, "10.1.1.1"},
    {{"for=203.0.113.9, by=10.9.9.9, for=10.1.1.1"}, "10.1.1.1"},
    /* what a client leaves open does not swallow what the proxy adds */
    {{"for=198.51.100.1;x=\", for=203.0.113.9"}, "203.0.113.9"},
    {{"for=198.51.100.1;x=\", for=\"[2001:db8:2::7]\""}, "2001:db8:2::7"},
    {{"for=198.51.100.1;x=\"\\", "for=203.0.113.9"}, "203.0.113.9"},
    {{"for=203.0.113.9;for=198.51.100.1"}, NULL},
    {{"for=203.0.113.9;;"}, "203.0.113.9"},
    {{"for=\"203.0.113.9"}, NULL},
    {{"for=203.0.113.9\""}, NULL},
    {{"for=\""}, NULL},
    {{"for=\"\""}, NULL},
    {{"for="}, NULL},
    {{"for"}, NULL},
    {{"for =203.0.113.9"}, NULL},
    {{"203.0.113.9"}, NULL},
    {{"by=203.0.113.9"}, NULL},
    {{";"}, NULL},
    {{""}, NULL},
};

static void check(enum ad_forwarding kind, const char *const *lines, const char *expected)
{
    struct ad_proxies proxies;
    struct ad_address found;
    char text[AD_CLIENT_SIZE] = "";
    size_t n = 0;
    ck_assert_int_eq(ad_proxies_parse(PROXIES, &proxies, NULL), AD_OK);
    while (n < MAX_LINES && lines[n]) {
        n++;
    }
    bool is_found = ad_client_find(&proxies, kind, lines, n, &found);
    if (is_found) {
        ad_address_text(&found, text);
    }
    ck_assert_msg(is_found == (expected != NULL), "%s: %s", lines[0], text);
    if (expected) {
        ck_assert_str_eq(text, expected);
    }
    ad_proxies_reset(&proxies);
}

START_TEST(x_forwarded_for)
{
    check(AD_X_FORWARDED_FOR, lists[_i].lines, lists[_i].client);
}
END_TEST

START_TEST(forwarded)
{
    check(AD_FORWARDED, forwards[_i].lines, forwards[_i].client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client");
    TCase *tcase = tcase_create("client");
    tcase_add_loop_test(tcase, trust, 0, sizeof trusts / sizeof trusts[0]);
    tcase_add_loop_test(tcase, bad, 0, sizeof bad_lists / sizeof bad_lists[0]);
    tcase_add_test(tcase, texts);
    tcase_add_loop_test(tcase, x_forwarded_for, 0, sizeof lists / sizeof lists[0]);
    tcase_add_loop_test(tcase, forwarded, 0, sizeof forwards / sizeof forwards[0]);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
