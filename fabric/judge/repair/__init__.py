"""Repaired hosts: may they go back into service?"""
