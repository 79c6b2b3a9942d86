// Package postgres compares Weir's limits in PostgreSQL with three common ways to keep one
// in a table: what they admit, what they cost the database, and where they stall.
package postgres
