//! Settings of the C library's allocator, so that memory of request bodies is returned to the system.

/// Allocations of this size or more are returned to the system when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 128 << 10;

/// Fixes the size above which glibc maps an allocation on its own.
///
/// By default glibc raises this size to that of the largest freed allocation. After a burst of long
/// requests, all further bodies share the heap with small long-lived values, and their memory is kept.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a call of the C library")]
pub(crate) fn return_large_allocations() {
    // SAFETY: `mallopt` takes two numbers and locks the allocator itself.
    unsafe {
        // A failure only costs memory.
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Other allocators need no settings.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_large_allocations() {}
