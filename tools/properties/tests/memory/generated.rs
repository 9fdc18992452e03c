//! Bodies that are made at random from a seed: trees of any shape in JSON and in msgpack, forms and lines.

use fastrand::Rng;

/// The fields that bodies have. The shares of the others in a body are smaller.
const FIELDS: [&str; 7] = ["images", "items", "faces", "a", "b", "options", "masks"];

/// The names in values, and one that no value has.
const NAMES: [&str; 14] = [
    "data",
    "embedding",
    "id",
    "url",
    "source",
    "source_url",
    "metadata",
    "vector_space",
    "face_id",
    "name",
    "operation",
    "operations",
    "webhook",
    "unknown",
];

/// The names of the parts of forms.
const PARTS: [&str; 11] = [
    "image",
    "mask",
    "options",
    "a",
    "b",
    "a_face_id",
    "face_id",
    "det_size",
    "operations",
    "webhook",
    "unknown",
];

/// What texts are made of, as JSON and as msgpack write it.
const UNITS: [(&str, &str); 8] = [
    ("A", "A"),
    ("\x7f", "\x7f"),
    ("é", "é"),
    ("\\u0001", "\u{1}"),
    ("\\/", "/"),
    ("AAA\\n", "AAA\n"),
    ("\\\"", "\""),
    ("data:,", "data:,"),
];

/// Numbers, and what is not one, as JSON and as msgpack write it.
const SCALARS: [(&str, &[u8]); 6] = [
    ("0", b"\x00"),
    ("-1.5", b"\xCB\xBF\xF8\0\0\0\0\0\0"),
    (
        "18446744073709551615",
        b"\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    ),
    ("true", b"\xC3"),
    ("null", b"\xC0"),
    ("123456789012345678901234567890", b"\xCB\x46\0\0\0\0\0\0\0"),
];

/// A value.
pub enum Tree {
    Scalar(usize),
    Text(&'static str),
    /// A text of about this length.
    Long {
        unit: usize,
        length: usize,
    },
    /// Bytes. JSON has them as text.
    Binary(usize),
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
    /// As many copies of a value as take about this length, as a list or as a map with one key.
    Copies {
        of: Box<Tree>,
        is_map: bool,
        length: usize,
    },
    /// Lists in each other, or maps.
    Deep {
        is_map: bool,
        levels: usize,
    },
}

/// Makes bodies. The same seed makes the same ones.
pub struct Generator(Rng);

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// Makes an object of about `length` bytes.
    pub fn object(&mut self, length: usize) -> Tree {
        let mut fields = vec![(Tree::Text("operation"), Tree::Text("detect"))];
        if self.0.u8(..8) == 0 {
            fields.clear();
        }
        let count = self.0.usize(1..4);
        for _ in 0..count {
            let name = match self.0.u8(..8) {
                0 => self.any(&NAMES),
                _ => self.any(&FIELDS),
            };
            fields.push((Tree::Text(name), self.value(length / count, 0)));
        }
        self.0.shuffle(&mut fields);
        Tree::Map(fields)
    }

    /// Makes a form of about `length` bytes, with the boundary `edge`.
    pub fn form(&mut self, length: usize) -> String {
        let count = match self.0.u8(..4) {
            0 => self.0.usize(1..5),
            1 => self.0.usize(50..70),
            2 => self.0.usize(100..400),
            _ => 20_000,
        };
        let same = self.any(&PARTS);
        let are_same = self.0.bool();
        let mut form = String::new();
        for _ in 0..count {
            let name = if are_same { same } else { self.any(&PARTS) };
            let file = if self.0.bool() {
                "; filename=\"a\""
            } else {
                ""
            };
            let value = self.value(length / count, 0).json();
            form += &format!(
                "--edge\r\ncontent-disposition: form-data; name={name}{file}\r\n\r\n{value}\r\n"
            );
        }
        form + "--edge--\r\n"
    }

    /// Makes lines of about `length` bytes.
    pub fn lines(&mut self, length: usize) -> String {
        let count = self.any(&[1, 4, 100, 20_000]);
        let mut lines = "{\"operation\":\"detect\"}\n".to_owned();
        for _ in 0..count {
            let line = match self.0.u8(..4) {
                0 => self.value(length / count, 0),
                _ => self.named(length / count, 0),
            };
            lines += &line.json();
            lines.push('\n');
        }
        lines
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.usize(..of.len())]
    }

    /// Makes a value of about `length` bytes.
    fn value(&mut self, length: usize, depth: usize) -> Tree {
        if length < 64 || depth > 4 {
            return self.small(length);
        }
        match self.0.u8(..9) {
            0 => self.long(length),
            1 => Tree::Binary(length),
            2 => Tree::Copies {
                of: Box::new(self.small(60)),
                is_map: self.0.bool(),
                length,
            },
            3 => Tree::Deep {
                is_map: self.0.bool(),
                levels: self.any(&[90, 130, length / 2]).min(length / 2),
            },
            4 => self.named(length, depth),
            5 => {
                // What looks like the name of a field, and then a text that only that field may have.
                let name = Tree::Text(self.any(&["data", "embedding"]));
                let entry = Tree::Map(vec![(Tree::Text("id"), name)]);
                Tree::List(vec![entry, self.long(length)])
            }
            6 => {
                let length = length / 3;
                let list = [Self::valid, Self::long, |making: &mut Self, length| {
                    making.value(length, 9)
                }];
                Tree::List(list.map(|make| make(self, length)).into())
            }
            _ => {
                // Entries that are as they should be, and then some that are not.
                let count = self.0.usize(1..5);
                let mut list: Vec<Tree> = (0..count).map(|_| self.valid(length / 8)).collect();
                list.push(self.named(length / 4, depth + 1));
                list.push(self.value(length / 4, depth + 1));
                Tree::List(list)
            }
        }
    }

    /// Makes an object with some of [`NAMES`].
    fn named(&mut self, length: usize, depth: usize) -> Tree {
        let count = self.0.usize(1..5);
        let fields = (0..count).map(|_| {
            let name = Tree::Text(self.any(&NAMES));
            match self.0.u8(..6) {
                0 => (self.long(length / count), name),
                1 => (name, self.long(length / count)),
                _ => (name, self.value(length / count, depth + 1)),
            }
        });
        Tree::Map(fields.collect())
    }

    /// Makes an entry that routes take.
    fn valid(&mut self, length: usize) -> Tree {
        let text = Tree::Text;
        Tree::Map(match self.0.u8(..4) {
            0 => vec![(
                text("data"),
                Tree::Long {
                    unit: self.any(&[0, 4, 5]),
                    length,
                },
            )],
            1 => vec![(text("data"), Tree::Binary(length))],
            2 => vec![(text("url"), text("https://example.org/a.jpg"))],
            _ => vec![
                (text("embedding"), text("AAAAAA==")),
                (text("vector_space"), text("a")),
            ],
        })
    }

    fn long(&mut self, length: usize) -> Tree {
        Tree::Long {
            unit: self.0.usize(..UNITS.len()),
            length,
        }
    }

    fn small(&mut self, length: usize) -> Tree {
        match self.0.u8(..6) {
            0 => Tree::Text(self.any(&NAMES)),
            1 => Tree::List(Vec::new()),
            2 => Tree::Map(Vec::new()),
            3 if length > 30 => Tree::Map(vec![(Tree::Text("data"), Tree::Text("AAAA"))]),
            4 if length > 8 => Tree::List(vec![Tree::List(vec![Tree::Scalar(0)])]),
            _ => Tree::Scalar(self.0.usize(..SCALARS.len())),
        }
    }
}

impl Tree {
    pub fn json(&self) -> String {
        match self {
            Self::Scalar(which) => SCALARS[*which].0.to_owned(),
            Self::Text(text) => format!("\"{text}\""),
            Self::Long { unit, length } => {
                let unit = UNITS[*unit].0;
                format!("\"{}\"", unit.repeat(length / unit.len()))
            }
            Self::Binary(length) => format!("\"{}\"", "AAAA".repeat(length / 4)),
            Self::List(values) => {
                let values: Vec<String> = values.iter().map(Self::json).collect();
                format!("[{}]", values.join(","))
            }
            Self::Map(fields) => {
                let field = |(name, value): &(Self, Self)| match name {
                    Self::Text(_) | Self::Long { .. } => {
                        format!("{}:{}", name.json(), value.json())
                    }
                    _ => format!("\"a\":{}", value.json()),
                };
                let fields: Vec<String> = fields.iter().map(field).collect();
                format!("{{{}}}", fields.join(","))
            }
            Self::Copies { of, is_map, length } => {
                let [begin, name, end] = Self::around(*is_map);
                let copy = format!("{name}{}", of.json());
                let copies = format!("{copy},").repeat(length / (copy.len() + 1));
                format!("{begin}{copies}{copy}{end}")
            }
            Self::Deep { is_map, levels } => {
                let [begin, name, end] = Self::around(*is_map);
                let begin = [begin, name].concat();
                let levels = levels / begin.len();
                format!("{}0{}", begin.repeat(levels), end.repeat(levels))
            }
        }
    }

    /// Returns what is around the value in a list, or in a map with one key.
    fn around(is_map: bool) -> [&'static str; 3] {
        match is_map {
            true => ["{", "\"a\":", "}"],
            false => ["[", "", "]"],
        }
    }

    pub fn msgpack(&self) -> Vec<u8> {
        match self {
            Self::Scalar(which) => SCALARS[*which].1.to_owned(),
            Self::Text(text) => counted(0xDB, text.len(), text.as_bytes()),
            Self::Long { unit, length } => {
                let unit = UNITS[*unit].1;
                let text = unit.repeat(length / unit.len());
                counted(0xDB, text.len(), text.as_bytes())
            }
            Self::Binary(length) => counted(0xC6, *length, &vec![0; *length]),
            Self::List(values) => {
                let content: Vec<Vec<u8>> = values.iter().map(Self::msgpack).collect();
                counted(0xDD, values.len(), &content.concat())
            }
            Self::Map(fields) => {
                let field = |(name, value): &(Self, Self)| [name.msgpack(), value.msgpack()];
                let content: Vec<Vec<u8>> = fields.iter().flat_map(field).collect();
                counted(0xDF, fields.len(), &content.concat())
            }
            Self::Copies { of, is_map, length } => {
                let name: &[u8] = if *is_map { b"\xA1a" } else { b"" };
                let copy = [name, &of.msgpack()].concat();
                let copies = length / copy.len();
                let marker = if *is_map { 0xDF } else { 0xDD };
                counted(marker, copies, &copy.repeat(copies))
            }
            Self::Deep { is_map, levels } => {
                let begin: &[u8] = if *is_map { b"\x81\xA1a" } else { b"\x91" };
                [&begin.repeat(*levels / begin.len())[..], b"\xC0"].concat()
            }
        }
    }
}

/// Returns a marker of msgpack with a number of four bytes, and what follows it.
fn counted(marker: u8, count: usize, content: &[u8]) -> Vec<u8> {
    let count = u32::try_from(count).expect("a short body").to_be_bytes();
    [&[marker][..], &count, content].concat()
}
