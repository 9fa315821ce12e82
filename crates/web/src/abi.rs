//! The plain C ABI of the module. JavaScript writes a request into the input, calls, and reads the output.

#![allow(unsafe_code, reason = "exported names are unsafe attributes")]

use std::cell::RefCell;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Sets the length of the input in bytes, for a request in UTF-8, and returns its address. It is valid until the next
/// export is called.
#[unsafe(no_mangle)]
pub extern "C" fn carob_input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(length, 0);
        input.as_mut_ptr()
    })
}

/// Handles the request in the input. Returns the length of the result in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn carob_call() -> usize {
    let request = INPUT.take();
    let request = String::from_utf8_lossy(&request);
    let result = crate::call(&request);
    OUTPUT.with_borrow_mut(|output| {
        *output = result;
        output.len()
    })
}

/// Address of the result of the last call. It is valid until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn carob_output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}
