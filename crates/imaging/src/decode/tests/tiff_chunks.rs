//! TIFFs whose strips and tiles cause more work than their image.

use image::{ExtendedColorType, ImageEncoder};

use super::*;

const TABLES: u16 = 347;
const TILE_WIDTH: u16 = 322;
const TILE_LENGTH: u16 = 323;
const TILE_OFFSETS: u16 = 324;
const TILE_BYTE_COUNTS: u16 = 325;

/// A gray TIFF whose chunks are all the same bytes.
struct Shared<'a> {
    side: u32,
    compression: u32,
    /// The side of a tile, or one strip for each row.
    tile: Option<u32>,
    part: &'a [u8],
    tables: &'a [u8],
}

impl Shared<'_> {
    fn file(&self) -> Vec<u8> {
        let chunks = match self.tile {
            Some(tile) => self.side.div_ceil(tile).pow(2),
            None => self.side,
        };
        let part_at = 8 + self.tables.len() as u32;
        let offsets_at = part_at + self.part.len() as u32;
        let counts_at = offsets_at + 4 * chunks;
        let directory_at = counts_at + 4 * chunks;
        let mut entries = vec![
            (0x100, 4, 1, self.side),
            (0x101, 4, 1, self.side),
            (0x102, 3, 1, 8),
            (0x103, 3, 1, self.compression),
            (0x106, 3, 1, 1),
        ];
        let places = |tags: [u16; 2]| {
            [
                (tags[0], 4, chunks, offsets_at),
                (tags[1], 4, chunks, counts_at),
            ]
        };
        if let Some(tile) = self.tile {
            entries.push((0x115, 3, 1, 1));
            entries.extend([(TILE_WIDTH, 4, 1, tile), (TILE_LENGTH, 4, 1, tile)]);
            entries.extend(places([TILE_OFFSETS, TILE_BYTE_COUNTS]));
        } else {
            let [offsets, counts] = places([0x111, 0x117]);
            let samples = (0x115, 3, 1, 1);
            entries.extend([offsets, samples, (0x116, 4, 1, 1), counts]);
        }
        if !self.tables.is_empty() {
            entries.push((TABLES, 7, self.tables.len() as u32, 8));
        }
        let mut file = [b"II*\0", &directory_at.to_le_bytes()[..], self.tables].concat();
        file.extend(self.part);
        file.extend((0..chunks).flat_map(|_| part_at.to_le_bytes()));
        file.extend((0..chunks).flat_map(|_| (self.part.len() as u32).to_le_bytes()));
        file.extend((entries.len() as u16).to_le_bytes());
        for (tag, kind, count, value) in entries {
            let (tag, kind): (u16, u16) = (tag, kind);
            file.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
            file.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
        }
        file.extend([0; 4]);
        file
    }
}

const STRIPS: Shared<'static> = Shared {
    side: 64,
    compression: 1,
    tile: None,
    part: &[],
    tables: &[],
};

fn gray_jpeg(width: u32, height: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let pixels = vec![128; (width * height) as usize];
    image::codecs::jpeg::JpegEncoder::new(&mut file)
        .write_image(&pixels, width, height, ExtendedColorType::L8)
        .unwrap();
    file
}

/// Returns the JPEG file with this size in its frame header.
fn with_size(jpeg: &[u8], side: u16) -> Vec<u8> {
    let mut file = jpeg.to_vec();
    let frame = file.windows(2).position(|w| w == [0xFF, 0xC0]).unwrap();
    file[frame + 5..frame + 9].copy_from_slice(&[side.to_be_bytes(); 2].concat());
    file
}

/// Deflate blocks without data: the decoder reads all of them for each chunk.
fn long_part() -> Vec<u8> {
    [&b"\x78\x01"[..], &[0, 0, 0, 0xFF, 0xFF].repeat(100_000)].concat()
}

#[test]
fn equal_chunks_are_decoded() {
    let row = STRIPS.part_of(&[7; 64]).file();
    assert_eq!(plain(&row).unwrap().pixels.as_raw(), &[7; 64 * 64 * 3]);
    let jpeg = gray_jpeg(16, 16);
    let tiles = Shared {
        compression: 7,
        tile: Some(16),
        part: &jpeg,
        ..STRIPS
    };
    assert_eq!(plain(&tiles.file()).unwrap().pixels.dimensions(), (64, 64));
}

impl<'a> Shared<'a> {
    fn part_of(self, part: &'a [u8]) -> Self {
        Self { part, ..self }
    }
}

#[test]
fn chunks_that_are_the_same_long_bytes_are_refused() {
    let part = long_part();
    for compression in [5, 8, 32773] {
        let file = Shared {
            compression,
            ..STRIPS.part_of(&part)
        };
        assert_eq!(detail(&file.file()), "its strips or tiles overlap");
    }
    let jpeg = [gray_jpeg(64, 1), vec![0; 100_000]].concat();
    let file = Shared {
        compression: 7,
        ..STRIPS.part_of(&jpeg)
    };
    assert_eq!(detail(&file.file()), "its strips or tiles overlap");
}

#[test]
fn tiles_with_more_samples_than_an_image_may_have_are_refused() {
    for tile in [1 << 20, 50_000] {
        let file = Shared {
            compression: 8,
            tile: Some(tile),
            ..STRIPS.part_of(&[0; 16])
        };
        let error = error(&file.file());
        assert!(
            matches!(
                error,
                DecodeError::TooLarge(Exceeded {
                    limit: LimitKind::Memory,
                    ..
                })
            ),
            "{tile}: {error:?}"
        );
    }
}

#[test]
fn a_jpeg_in_a_tiff_has_the_limits_of_an_image() {
    let jpeg = gray_jpeg(64, 64);
    for (side, limit) in [(16_384, LimitKind::Memory), (6_000, LimitKind::Pixels)] {
        let part = with_size(&jpeg, side);
        let tiles = Shared {
            compression: 7,
            tile: Some(32),
            ..STRIPS.part_of(&part)
        };
        match error(&tiles.file()) {
            DecodeError::TooLarge(exceeded) => assert_eq!(exceeded.limit, limit, "{side}"),
            other => panic!("{side}: {other:?}"),
        }
    }
}

#[test]
fn frame_headers_in_the_tables_of_a_tiff_count_too() {
    let jpeg = gray_jpeg(64, 64);
    let large = with_size(&jpeg, 16_384);
    let tiles = |tables| Shared {
        compression: 7,
        tile: Some(64),
        part: &jpeg,
        tables,
        ..STRIPS
    };
    assert!(matches!(
        error(&tiles(&large[..]).file()),
        DecodeError::TooLarge { .. }
    ));
    let long = vec![0; 5000];
    assert_eq!(detail(&tiles(&long).file()), "its JPEG tables are too long");
}

#[test]
fn too_many_chunks_are_refused() {
    let tiles = Shared {
        side: 257,
        compression: 7,
        tile: Some(1),
        part: &gray_jpeg(1, 1),
        ..STRIPS
    };
    assert_eq!(detail(&tiles.file()), "it has too many strips or tiles");
}
