//! The twin in memory.
