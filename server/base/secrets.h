/* secrets.h - what keeps the secrets of a process in it: API keys, private keys. */
#ifndef AD_BASE_SECRETS_H
#define AD_BASE_SECRETS_H

/* From here on this process leaves no core dump, other processes of its user cannot look into its
 * memory, and what jansson frees is wiped. Before any secret is read, and before other threads are
 * started. */
void ad_secrets_guard(void);

#endif
