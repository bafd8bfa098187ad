/* handle_regions.h - the routes of shared memory: which regions there are, register, unregister. See
 * ad_handler in routes.h. Regions are all clients' alike, so these are no routes for operators. */
#ifndef AD_HTTP_HANDLE_REGIONS_H
#define AD_HTTP_HANDLE_REGIONS_H

#include "http/routes.h"

ad_handler ad_handle_regions; /* all of them, or one */
ad_handler ad_handle_register;
ad_handler ad_handle_unregister; /* all of them, or one */

#endif
