//! Points and boxes in pixel coordinates of the upright image.

/// Five facial landmarks in pixels, in this order: the eye on the left of the image, the other eye, the nose, the mouth
/// corner on the left of the image, the other mouth corner.
pub type Landmarks = [[f32; 2]; 5];

/// An axis-aligned box `[x1, y1, x2, y2]` in pixels; half-open, `x1 ≤ x2` and `y1 ≤ y2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BBox {
    /// Left edge.
    pub x1: f32,
    /// Top edge.
    pub y1: f32,
    /// Right edge.
    pub x2: f32,
    /// Bottom edge.
    pub y2: f32,
}

impl BBox {
    /// Returns the width in pixels. It is never negative.
    pub fn width(&self) -> f32 {
        (self.x2 - self.x1).max(0.0)
    }

    /// Returns the height in pixels. It is never negative.
    pub fn height(&self) -> f32 {
        (self.y2 - self.y1).max(0.0)
    }

    /// Returns the area in square pixels.
    pub fn area(&self) -> f32 {
        self.width() * self.height()
    }

    /// Returns the intersection over union, 0..=1. It is 0 if both boxes are empty.
    pub fn iou(&self, other: &Self) -> f32 {
        let shared = Self {
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
            x2: self.x2.min(other.x2),
            y2: self.y2.min(other.y2),
        }
        .area();
        let union = self.area() + other.area() - shared;
        if union > 0.0 { shared / union } else { 0.0 }
    }

    /// Returns the part of the box inside an image of `width` × `height`.
    pub fn clipped(&self, width: u32, height: u32) -> Self {
        let (w, h) = (width as f32, height as f32);
        Self {
            x1: self.x1.clamp(0.0, w),
            y1: self.y1.clamp(0.0, h),
            x2: self.x2.clamp(0.0, w),
            y2: self.y2.clamp(0.0, h),
        }
    }

    /// Returns the same box in an image that is `scale` times larger.
    pub fn scaled(&self, scale: f32) -> Self {
        self.to_array().map(|side| side * scale).into()
    }

    /// Returns `[x1, y1, x2, y2]`, as in responses.
    pub fn to_array(self) -> [f32; 4] {
        [self.x1, self.y1, self.x2, self.y2]
    }
}

impl From<[f32; 4]> for BBox {
    fn from([x1, y1, x2, y2]: [f32; 4]) -> Self {
        Self { x1, y1, x2, y2 }
    }
}
