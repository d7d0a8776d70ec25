"""What several topics of operators share."""
