//! libjpeg-turbo's decoder, through the TurboJPEG API of a shared library that is loaded at run time.
//!
//! The decoder can reduce an image to 1/2, 1/4 or 1/8 while it decodes: it computes each 8 × 8 block with 4 × 4, 2 × 2
//! or 1 × 1 pixels. The functions used here exist in the versions 2.1 and 3 of the library. See
//! <https://libjpeg-turbo.org/Documentation/Documentation>.

#![expect(
    unsafe_code,
    reason = "the library has a C API, and there is no safe way to load a shared library"
)]

use std::{
    ffi::{OsStr, c_int, c_uchar, c_ulong, c_void},
    fmt,
    ptr::NonNull,
};

use libloading::Library;

/// The library's file name, which the system's loader searches for.
pub const SYSTEM_LIBRARY: &str = if cfg!(target_os = "macos") {
    "libturbojpeg.0.dylib"
} else {
    "libturbojpeg.so.0"
};

/// `TJPF_RGB`: three bytes a pixel.
const RGB: c_int = 0;
/// `TJFLAG_STOPONWARNING`: damaged data are an error.
const STOP_ON_WARNING: c_int = 8192;
/// `TJFLAG_LIMITSCANS`: more than 500 scans are an error.
const LIMIT_SCANS: c_int = 32768;
/// `TJCS_YCbCr` and `TJCS_GRAY`. The library does not convert CMYK and YCCK, and RGB is left to the other decoder.
const COLOR_SPACES: [c_int; 2] = [1, 2];

type Init = unsafe extern "C" fn() -> *mut c_void;
type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
type ReadHeader = unsafe extern "C" fn(
    *mut c_void,
    *const c_uchar,
    c_ulong,
    *mut c_int,
    *mut c_int,
    *mut c_int,
    *mut c_int,
) -> c_int;
type Decompress = unsafe extern "C" fn(
    *mut c_void,
    *const c_uchar,
    c_ulong,
    *mut c_uchar,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

/// libjpeg-turbo.
pub struct TurboJpeg {
    init: Init,
    destroy: Destroy,
    read_header: ReadHeader,
    decompress: Decompress,
    /// The functions above are valid as long as the library is loaded.
    _library: Library,
}

impl fmt::Debug for TurboJpeg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurboJpeg").finish_non_exhaustive()
    }
}

impl TurboJpeg {
    /// Loads the library from a path, or by its name from the search path of the system's loader.
    ///
    /// # Errors
    /// Returns an error if there is no such library, or if it lacks a function.
    pub fn load(library: impl AsRef<OsStr>) -> Result<Self, libloading::Error> {
        // SAFETY: libjpeg-turbo has no initializers or finalizers that need anything of the process.
        let library = unsafe { Library::new(library.as_ref()) }?;
        // SAFETY: the types are those of turbojpeg.h.
        unsafe {
            Ok(Self {
                init: *library.get::<Init>(c"tjInitDecompress")?,
                destroy: *library.get::<Destroy>(c"tjDestroy")?,
                read_header: *library.get::<ReadHeader>(c"tjDecompressHeader3")?,
                decompress: *library.get::<Decompress>(c"tjDecompress2")?,
                _library: library,
            })
        }
    }

    /// Decodes an image of `size` pixels to 1/`divisor` of its sides, rounded up, as RGB. `samples` must have the
    /// size of the result. Returns whether that succeeded. Otherwise `samples` has unspecified values.
    ///
    /// # Panics
    /// Panics if `samples` has another size.
    pub(super) fn decode(
        &self,
        bytes: &[u8],
        size: (u32, u32),
        divisor: u32,
        samples: &mut [u8],
    ) -> bool {
        let reduced = [size.0.div_ceil(divisor), size.1.div_ceil(divisor)];
        assert_eq!(
            samples.len() as u64,
            3 * u64::from(reduced[0]) * u64::from(reduced[1]),
            "the buffer has the size of the reduced image"
        );
        let ([Ok(width), Ok(height)], Ok(len)) =
            (reduced.map(c_int::try_from), bytes.len().try_into())
        else {
            return false;
        };
        let Some(decoder) = Handle::new(self) else {
            return false;
        };
        decoder.accepts(bytes, len, size)
            // SAFETY: the decoder is valid, and `bytes` has `len` bytes. The library chooses the largest of its scales
            // at which the image is not larger than `width` × `height`. So it writes at most `height` lines of `width`
            // RGB pixels, whatever the file states, and `samples` has that size.
            && unsafe {
                (self.decompress)(
                    decoder.handle.as_ptr(),
                    bytes.as_ptr(),
                    len,
                    samples.as_mut_ptr(),
                    width,
                    width * 3,
                    height,
                    RGB,
                    STOP_ON_WARNING | LIMIT_SCANS,
                )
            } == 0
    }
}

/// A decoder of the library, for one image.
struct Handle<'a> {
    library: &'a TurboJpeg,
    handle: NonNull<c_void>,
}

impl<'a> Handle<'a> {
    fn new(library: &'a TurboJpeg) -> Option<Self> {
        // SAFETY: the function has no requirements. It returns null if there is no memory.
        let handle = unsafe { (library.init)() };
        NonNull::new(handle).map(|handle| Self { library, handle })
    }

    /// Returns whether the library reads the same size from the header, and can convert the colors to RGB.
    fn accepts(&self, bytes: &[u8], len: c_ulong, size: (u32, u32)) -> bool {
        let [mut width, mut height, mut subsampling, mut colors] = [0; 4];
        // SAFETY: the decoder is valid, `bytes` has `len` bytes, and the results are written to four integers.
        let status = unsafe {
            (self.library.read_header)(
                self.handle.as_ptr(),
                bytes.as_ptr(),
                len,
                &raw mut width,
                &raw mut height,
                &raw mut subsampling,
                &raw mut colors,
            )
        };
        status == 0
            && (u32::try_from(width), u32::try_from(height)) == (Ok(size.0), Ok(size.1))
            && COLOR_SPACES.contains(&colors)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: the decoder is valid, and nothing uses it after this.
        unsafe { (self.library.destroy)(self.handle.as_ptr()) };
    }
}
