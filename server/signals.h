/* signals.h - the signals that main waits for: SIGTERM and SIGINT to stop, SIGHUP to reload. */
#ifndef AD_SIGNALS_H
#define AD_SIGNALS_H

#include <stdint.h>

/* Before any thread starts: all of them inherit the mask. */
void ad_signals_block(void);

/* Until they are blocked again, a SIGTERM or SIGINT ends the process with status 0: for a start, which
 * may take long, while nothing is served that could be lost. */
void ad_signals_let_end(void);

/* The number of the next one; 0: none came until until_ns, on ad_clock_now_ns's clock. */
int ad_signals_wait(int64_t until_ns);

/* From here on a SIGTERM or SIGINT ends the process, whatever it is doing. */
void ad_signals_let_kill(void);

#endif
