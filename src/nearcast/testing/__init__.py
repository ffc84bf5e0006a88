"""What tests of systems built on nearcast need: shipped, and used by nearcast's own tests."""
