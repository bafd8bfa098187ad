/* probe.h - a small HTTP client that asks a daemon, another one or our own, for its health. */
#ifndef AD_HTTP_PROBE_H
#define AD_HTTP_PROBE_H

#include "base/error.h"
#include "base/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Whom to ask. */
struct ad_probe {
    struct sockaddr_storage address;
    socklen_t size;
    bool
        tls; /* whose certificate it is does not matter: nothing is told, and nothing believed */
};

/* Ask whoever listens at that address, of any family. One that means every address of the machine is
 * asked over loopback. */
struct ad_probe ad_probe_at(const struct sockaddr_storage *address, socklen_t size,
                            bool tls);

/* Ask a daemon with those options, at its first address. AD_INVALID: they do not say where it
 * listens. */
enum ad_status ad_probe_find(const struct ad_options *options, struct ad_probe *probe,
                             struct ad_error *error) AD_MUST_CHECK;

/* GET path, and read the code of the answer until deadline_ns, on ad_clock_now_ns's clock. AD_CANCELED: it
 * was hung up without an answer; AD_UNAVAILABLE: nobody took the connection, or not in time;
 * AD_INVALID: what came is not HTTP, or not TLS. */
enum ad_status ad_probe_get(const struct ad_probe *probe, const char *path,
                            int64_t deadline_ns, unsigned *code,
                            struct ad_error *error) AD_MUST_CHECK;

#endif
