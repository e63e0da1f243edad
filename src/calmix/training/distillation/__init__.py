"""Teachers, their logits, and the mixin that trains a student.

mixin           The Trainer side of distillation
teacher_logits  What teachers say about the training rows: computed once, kept in a file
teachers        Who can teach: a run, any checkpoint of transformers, or a file of predictions
teaching        What comes before a student: its teachers, and their logits on the training rows
"""
