//! Headers of `.npy` files. The server writes them and reads none, so the property reads what the server wrote, as strictly
//! as the format allows.

use facescan_imaging::npy::{Kind, header, header_of_len};

const KINDS: [(Kind, &str); 4] = [
    (Kind::U8, "|u1"),
    (Kind::F32, "<f4"),
    (Kind::F16, "<f2"),
    (Kind::Bf16, "|V2"),
];

/// The most dimensions that NumPy reads.
const MAX_DIMS: usize = 64;

/// A header has the type and the shape that it was made from. The first byte chooses the type, the next two bytes a length,
/// and each further eight bytes are a dimension.
pub fn npy(input: &[u8]) {
    let Some((&[kind, low, high], shape)) = input.split_first_chunk() else {
        return;
    };
    let (kind, name) = KINDS[usize::from(kind) % KINDS.len()];
    let shape: Vec<usize> = shape
        .chunks(8)
        .take(MAX_DIMS)
        .map(|bytes| {
            bytes
                .iter()
                .fold(0, |dim, byte| dim << 8 | usize::from(*byte))
        })
        .collect();
    let written = header(kind, &shape);
    assert_eq!(written.len() % 64, 0, "the values are not aligned");
    assert_eq!(read(&written), (name.to_owned(), shape.clone()));

    let len = usize::from(u16::from_le_bytes([low, high]));
    match header_of_len(kind, &shape, len) {
        Some(fixed) => {
            assert_eq!(fixed.len(), len);
            assert_eq!(read(&fixed), (name.to_owned(), shape));
        }
        None => assert!(len < written.len(), "a header of {len} bytes must fit"),
    }
}

/// Reads a header, and panics at the first byte that the format does not allow.
fn read(header: &[u8]) -> (String, Vec<usize>) {
    let rest = header.strip_prefix(b"\x93NUMPY\x01\x00");
    let (length, text) = rest
        .and_then(|rest| rest.split_first_chunk::<2>())
        .expect("the magic string, the version and the length");
    assert_eq!(usize::from(u16::from_le_bytes(*length)), text.len());
    let text = str::from_utf8(text).expect("ASCII");
    let text = text.strip_suffix('\n').expect("a line feed at the end");
    let text = text.trim_end_matches(' ');
    let text = text.strip_prefix("{'descr': '").expect("the type");
    let (kind, text) = text
        .split_once("', 'fortran_order': False, 'shape': (")
        .expect("the order");
    let shape = text.strip_suffix("), }").expect("the end of the shape");
    let dims: Vec<usize> = match shape.strip_suffix(',') {
        Some(single) => vec![single.parse().expect("one dimension")],
        None if shape.is_empty() => Vec::new(),
        None => shape
            .split(", ")
            .map(|dim| dim.parse().expect("a dimension"))
            .collect(),
    };
    assert!(
        dims.len() != 1 || shape.ends_with(','),
        "a tuple of one needs a comma"
    );
    (kind.to_owned(), dims)
}
