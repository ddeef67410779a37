// The one function that the library exports. C, so that the header is shown to be C, and with debug
// information, from which scripts/check_abi.py reads what the header promises.
#include <stdio.h>

#include "capi/anydim.h"

const anydim_api* anydim_table(void);

const anydim_api* anydim_get_api(uint32_t version, const char** why) {
  static _Thread_local char text[200];
  const anydim_api* table = anydim_table();
  const int there = version >= 1 && version <= table->version;
  text[0] = 0;
  if (!there)
    snprintf(text, sizeof text,
             "anydim_get_api: libanydim %s has versions 1 to %u of its interface, not %u: %s",
             table->library_version(), (unsigned)table->version, (unsigned)version,
             version == 0 ? "ask for ANYDIM_API_VERSION" : "install a newer one");
  if (why != NULL) *why = text;
  return there ? table : NULL;
}
