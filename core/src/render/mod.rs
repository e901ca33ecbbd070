//! What people and programs see of plans. [`document`] turns plans into one structure; [`human`]
//! prints that structure, and its JSON form is the structure itself.

mod arguments;
pub mod codes;
mod detail;
pub mod document;
pub mod human;
