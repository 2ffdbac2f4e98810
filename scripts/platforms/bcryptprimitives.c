/* The one function of bcryptprimitives.dll that Rust programs need at their start. Wine 8 lacks the
 * library, and such a program then exits with 53 without a word. For tests under Wine only. */
#include <windows.h>

/* RtlGenRandom, under the name that advapi32 exports it by. */
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    while (length > 0) {
        ULONG part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!SystemFunction036(data, part))
            return FALSE;
        data += part;
        length -= part;
    }
    return TRUE;
}
